#include "chorus/diagnostics.h"
#include "lib/losses/arguments.h"

namespace chorus::losses {

// The clamp of the variance is not differentiated, as in PyTorch.
LossDefinition gaussian_nll() {
  LossDefinition d;
  d.name = "gaussian_nll";
  d.summary = "normal negative log likelihood; the model returns mean and variance";
  d.arguments = {"full", "eps", "reduction"};
  d.target = denseRule;
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    requireOutputs(request, d.name, 2, "mean and variance");
    LossCode code;
    const size_t rank = request.output_ranks.at(0) + 1, have = request.output_ranks.at(1) + 1;
    if (have != rank && have + 1 != rank) {
      throw Refused(error("gaussian_nll: the variance has rank " + std::to_string(have - 1) +
                          ", and the mean " + std::to_string(rank - 1)));
    }
    const std::string eps = number(request, code, "eps", 1e-6, rank, {0, 1e300});
    std::string text = "    v = outputs[1]\n";
    if (have != rank) text += "    v = v.unsqueeze(-1)\n";
    text +=
        "    assert v.size(1) == o.size(1) and (v.size(-1) == o.size(-1) or v.size(-1) == 1), "
        "\"gaussian_nll: the variance is {} and the mean {}\".format(v.size(), o.size())\n"
        "    v = v + (torch.maximum(v, torch.zeros_like(v) + " +
        eps +
        ") - v).detach()\n"
        "    e = 0.5 * (torch.log(v) + (o - t) ** 2 / v)\n";
    if (oneFlag(request, "full", false)) text += "    e = e + 0.9189385332046727\n";
    return denseLoss(d.name, text, reduction(request), code);
  };
  return d;
}

}  // namespace chorus::losses
