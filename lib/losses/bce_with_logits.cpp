#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition bce_with_logits() {
  LossDefinition d;
  d.name = "bce_with_logits";
  d.summary = "binary cross entropy of logits";
  d.arguments = {"weight", "pos_weight", "reduction"};
  d.target = denseRule;
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    LossCode code;
    const size_t rank = request.output_ranks.at(0) + 1;
    const std::string weight = rowTensor(request, code, "weight", rank);
    const std::string positive = rowTensor(request, code, "pos_weight", rank);
    std::string e = "    e = torch.binary_cross_entropy_with_logits(o, t, None, " +
                    (positive.empty() ? "None" : positive) + ", 0)\n";
    if (!weight.empty()) e += "    e = e * " + weight + "\n";
    return denseLoss(d.name, e, reduction(request), code);
  };
  return d;
}

}  // namespace chorus::losses
