#include "chorus/diagnostics.h"
#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition poisson_nll() {
  LossDefinition d;
  d.name = "poisson_nll";
  d.summary = "negative log likelihood of a Poisson distribution";
  d.arguments = {"log_input", "full", "eps", "reduction"};
  d.target = denseRule;
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    LossCode code;
    const std::string log = oneFlag(request, "log_input", true) ? "True" : "False";
    const std::string full = oneFlag(request, "full", false) ? "True" : "False";
    const std::vector<double> eps = numbers(request, "eps", 1e-8);
    if (eps.size() > 1) throw Refused(error("'eps' must be the same for all members"));
    const std::string e = "    e = torch.poisson_nll_loss(o, t, " + log + ", " + full + ", " +
                          number(request, code, "eps", 1e-8, 1) + ", 0)\n";
    return denseLoss(d.name, e, reduction(request));
  };
  return d;
}

}  // namespace chorus::losses
