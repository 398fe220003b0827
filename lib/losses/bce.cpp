#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition bce() {
  LossDefinition d;
  d.name = "bce";
  d.summary = "binary cross entropy of probabilities";
  d.arguments = {"weight", "reduction"};
  d.target = [](const LossRequest& request) {
    TargetRule rule = denseRule(request);
    rule.threshold = 0.5;  // outputs are probabilities
    return rule;
  };
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    LossCode code;
    const std::string weight = rowTensor(request, code, "weight", request.output_ranks.at(0) + 1);
    std::string e = "    e = torch.binary_cross_entropy(o, t, None, 0)\n";
    if (!weight.empty()) e += "    e = e * " + weight + "\n";
    return denseLoss(d.name, e, reduction(request), code);
  };
  return d;
}

}  // namespace chorus::losses
