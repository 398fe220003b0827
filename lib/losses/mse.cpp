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
    LossCode code;
    code.body = denseTarget("mse") + R"(
    e = (o - t) * (o - t)
)" + reduced(reduction(request));
    return code;
  };
  return d;
}

}  // namespace chorus::losses
