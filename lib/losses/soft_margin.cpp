#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition soft_margin() {
  LossDefinition d;
  d.name = "soft_margin";
  d.summary = "log(1 + exp(-target * output)), targets 1 and -1";
  d.arguments = {"reduction"};
  d.target = denseRule;
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    return denseLoss(d.name, "    e = torch.soft_margin_loss(o, t, 0)\n", reduction(request));
  };
  return d;
}

}  // namespace chorus::losses
