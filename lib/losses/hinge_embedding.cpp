#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition hinge_embedding() {
  LossDefinition d;
  d.name = "hinge_embedding";
  d.summary = "output where the target is 1, max(0, margin - output) where it is -1";
  d.arguments = {"margin", "reduction"};
  d.target = denseRule;
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    LossCode code;
    const size_t rank = request.output_ranks.at(0) + 1;
    const std::string margin = number(request, code, "margin", 1, rank);
    std::string e = "    apart = (" + margin + R"( - o).clamp_min(0)
    e = torch.where(t != 1, apart, 0.0) + torch.where(t != -1, o, 0.0)
)";
    return denseLoss(d.name, e, reduction(request), code);
  };
  return d;
}

}  // namespace chorus::losses
