#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition multilabel_soft_margin() {
  LossDefinition d;
  d.name = "multilabel_soft_margin";
  d.summary = "binary cross entropy of logits, mean over the classes; targets are 0 or 1";
  d.arguments = {"weight", "reduction"};
  d.target = denseRule;
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    LossCode code;
    const size_t rank = request.output_ranks.at(0) + 1;
    const std::string weight = rowTensor(request, code, "weight", rank);
    std::string text = "    e = -(t * torch.log_sigmoid(o) + (1 - t) * torch.log_sigmoid(-o))\n";
    if (!weight.empty()) text += "    e = e * " + weight + "\n";
    text += "    e = e.mean(-1)\n";
    return denseLoss(d.name, text, reduction(request), code);
  };
  return d;
}

}  // namespace chorus::losses
