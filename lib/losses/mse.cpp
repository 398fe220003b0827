#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition mse() {
  LossDefinition d;
  d.name = "mse";
  d.summary = "mean squared error; the target has the output's shape";
  d.arguments = {"reduction"};
  d.target = denseRule;
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    return denseLoss(d.name, "    e = torch.mse_loss(o, t, 0)\n", reduction(request));
  };
  return d;
}

}  // namespace chorus::losses
