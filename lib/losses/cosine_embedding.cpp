#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition cosine_embedding() {
  LossDefinition d;
  d.name = "cosine_embedding";
  d.summary = "cosine similarity of the model's two outputs; targets are 1 (alike) or -1";
  d.arguments = {"margin", "reduction"};
  d.target = [](const LossRequest&) {
    TargetRule rule;
    rule.dense_rank = 1;
    return rule;
  };
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    requireOutputs(request, d.name, 2, "two batches of rows");
    requireRank(request, d.name, 0, 2);
    requireRank(request, d.name, 1, 2);
    LossCode code;
    const std::string margin = number(request, code, "margin", 0, 2, {-1, 1});
    code.body = R"py(
    o = outputs[0]
    assert target.dim() == 1 or target.dim() == 2, "cosine_embedding: the target has rank {}, which is neither 1 (shared) nor 2 (stacked)".format(target.dim())
    t = target
    if t.dim() == 1:
        t = t.unsqueeze(0)
    assert t.size(1) == o.size(1) and o.size() == outputs[1].size(), "cosine_embedding: the outputs are {} and {}, the target {}".format(o.size(), outputs[1].size(), target.size())
    dot = (o * outputs[1]).sum(2)
    a = (o * o).sum(2) + 1e-12
    b = (outputs[1] * outputs[1]).sum(2) + 1e-12
    cosine = dot / torch.sqrt(a * b)
    none = torch.zeros_like(cosine)
    e = torch.where(t == 1, 1.0 - cosine, none) + torch.where(t == -1, torch.clamp(cosine - )py" +
                margin + ", 0), none)\n" + reduced(reduction(request));
    return code;
  };
  return d;
}

}  // namespace chorus::losses
