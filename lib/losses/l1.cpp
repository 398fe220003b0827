#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition l1() {
  LossDefinition d;
  d.name = "l1";
  d.summary = "mean absolute error";
  d.arguments = {"reduction"};
  d.target = denseRule;
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    return denseLoss(d.name, "    e = torch.l1_loss(o, t, 0)\n", reduction(request));
  };
  return d;
}

}  // namespace chorus::losses
