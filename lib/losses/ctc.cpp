#include "chorus/diagnostics.h"
#include "lib/export/fill.h"
#include "lib/losses/arguments.h"

namespace chorus::losses {

namespace {

/// One kernel for all sequences of all members: [K,T,N,C] -> [T,(K N),C].
const char* const kBody = R"py(
    o = outputs[0]
    assert target.dim() == 2 or target.dim() == 3, "ctc: the targets have rank {}, which is neither 2 (shared, [N,S]) nor 3 (stacked)".format(target.dim())
    t = target
    if t.dim() == 2:
        t = t.unsqueeze(0).expand([o.size(0)] + t.size())
    assert t.size(0) == o.size(0) and t.size(1) == o.size(2), "ctc: the targets are {} and the output {}".format(t.size(), o.size())
    lengths: List[Tensor] = []
    for l in more:
        assert l.dim() == 1 or l.dim() == 2, "ctc: lengths have rank {}, which is neither 1 (shared, [N]) nor 2 (stacked)".format(l.dim())
        if l.dim() == 1:
            l = l.unsqueeze(0).expand([o.size(0)] + l.size())
        assert l.size(0) == o.size(0) and l.size(1) == o.size(2), "ctc: the lengths are {} and the output {}".format(l.size(), o.size())
        lengths.append(l.to(4).flatten())
    logp = o.transpose(0, 1).flatten(1, 2)
    e = torch.ctc_loss(logp, t.to(4).flatten(0, 1), lengths[0], lengths[1], $blank, 0, $zero)
)py";

TargetRule ruleOf(const LossRequest& request) {
  TargetRule rule;
  rule.exact =
      TargetShape{at::kLong, {std::nullopt, std::nullopt}, request.output_sizes.at(0).back()};
  return rule;
}

}  // namespace

LossDefinition ctc() {
  LossDefinition d;
  d.name = "ctc";
  d.summary = "connectionist temporal classification; the model returns log_probs [T,N,C]";
  d.arguments = {"blank", "zero_infinity", "reduction"};
  d.more_targets = {"input_lengths", "target_lengths"};
  d.by_rows = false;
  d.target = [](const LossRequest& request) {
    requireRank(request, "ctc", 0, 3);
    return ruleOf(request);
  };
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    requireRank(request, d.name, 0, 3);
    const std::string blank = oneText(request, "blank", "0");
    const double index = numbers(request, "blank", 0, {0, 1e9}).front();
    const auto classes = request.output_sizes.at(0).back();
    if (index != static_cast<double>(static_cast<int64_t>(index)) ||
        (classes && index >= static_cast<double>(*classes))) {
      throw Refused(error("ctc: blank is " + blank + ", which is no class of the output"));
    }
    LossCode code;
    code.body =
        fill(kBody, {{"blank", std::to_string(static_cast<int64_t>(index))},
                     {"zero", oneFlag(request, "zero_infinity", false) ? "True" : "False"}});
    if (reduction(request) == "sum") {
      code.body += "    return e.view([o.size(0), o.size(2)]).sum(1)\n";
    } else {
      code.body +=
          "    e = e / lengths[1].clamp_min(1).to(e.dtype)\n"
          "    return e.view([o.size(0), o.size(2)]).mean(1)\n";
    }
    return code;
  };
  return d;
}

}  // namespace chorus::losses
