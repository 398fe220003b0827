#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition huber() {
  LossDefinition d;
  d.name = "huber";
  d.summary = "squared below delta, linear above";
  d.arguments = {"delta", "reduction"};
  d.target = denseRule;
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    LossCode code;
    const size_t rank = request.output_ranks.at(0) + 1;
    const std::string delta = number(request, code, "delta", 1, rank, {1e-300, 1e300});
    std::string e = "    delta = torch.zeros_like(o) + " + delta + R"(
    d = (o - t).abs()
    e = torch.where(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta))
)";
    return denseLoss(d.name, e, reduction(request), code);
  };
  return d;
}

}  // namespace chorus::losses
