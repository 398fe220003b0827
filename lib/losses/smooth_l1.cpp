#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition smooth_l1() {
  LossDefinition d;
  d.name = "smooth_l1";
  d.summary = "squared below beta, absolute above";
  d.arguments = {"beta", "reduction"};
  d.target = denseRule;
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    LossCode code;
    const size_t rank = request.output_ranks.at(0) + 1;
    const std::string beta = number(request, code, "beta", 1, rank, {0, 1e300});
    // beta = 0 is l1; its other branch must not divide by zero, whose gradient is not a number.
    std::string e = "    beta = torch.zeros_like(o) + " + beta + R"(
    d = (o - t).abs()
    e = torch.where(d < beta, 0.5 * d * d / torch.where(beta > 0, beta, 1.0), d - 0.5 * beta)
)";
    return denseLoss(d.name, e, reduction(request), code);
  };
  return d;
}

}  // namespace chorus::losses
