#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition kl_div() {
  LossDefinition d;
  d.name = "kl_div";
  d.summary = "Kullback-Leibler divergence; the model returns log probabilities";
  d.arguments = {"log_target", "reduction"};
  d.target = denseRule;
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    const std::string log = oneFlag(request, "log_target", false) ? "True" : "False";
    const std::string how = reduction(request, {"mean", "sum", "batchmean"});
    // As PyTorch: a scalar has no batch to divide by.
    const bool scalar = request.output_ranks.at(0) == 0;
    return denseLoss(d.name, "    e = torch.kl_div(o, t, 0, log_target=" + log + ")\n",
                     how == "batchmean" && scalar ? "sum" : how);
  };
  return d;
}

}  // namespace chorus::losses
