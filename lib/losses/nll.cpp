#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition nll() {
  LossDefinition d;
  d.name = "nll";
  d.summary = "negative log likelihood of class indices; the model returns log probabilities";
  d.arguments = {"weight", "ignore_index", "reduction"};
  d.target = [](const LossRequest& request) { return classRule(request, false); };
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    LossCode code;
    const std::string head = classTarget(request, d.name, /*probabilities=*/false);
    code.body = head + "    logp = o\n" + classLoss(request, code, d.name);
    return code;
  };
  return d;
}

}  // namespace chorus::losses
