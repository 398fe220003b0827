#include "chorus/diagnostics.h"
#include "lib/losses/arguments.h"

namespace chorus::losses {

namespace {

/// Probabilities t [K,N,C,...]; the mean divides by N and the sizes behind C, weights do not count.
std::string probabilityBranch(const LossRequest& request, LossCode& code) {
  const size_t rank = classRank(request);
  const std::string weight = classWeight(request, code, "cross_entropy");
  const std::string eps = number(request, code, "label_smoothing", 0, rank, {0, 1});
  std::string text = "    if floating:\n        t = t.to(o.dtype)\n";
  for (const double index : numbers(request, "ignore_index", -100)) {
    if (index < 0) continue;
    return "    assert not floating, \"cross_entropy: ignore_index needs class indices\"\n";
  }
  if (eps != "0.0") text += "        t = (1.0 - " + eps + ") * t + " + eps + " / o.size(2)\n";
  text += "        total = -(logp * t" + (weight.empty() ? "" : " * " + weight) +
          ").flatten(1).sum(1)\n";
  if (reduction(request) == "mean") {
    text += "        total = total / (t.numel() // (o.size(0) * o.size(2)))\n";
  }
  return text + "        return total\n";
}

}  // namespace

LossDefinition cross_entropy() {
  LossDefinition d;
  d.name = "cross_entropy";
  d.summary = "log_softmax and nll; class indices or probabilities";
  d.arguments = {"weight", "ignore_index", "label_smoothing", "reduction"};
  d.target = [](const LossRequest& request) { return classRule(request, true); };
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    LossCode code;
    const std::string head = classTarget(request, d.name, /*probabilities=*/true);
    code.body = head + "    logp = torch.log_softmax(o, 2)\n" + probabilityBranch(request, code) +
                classLoss(request, code, d.name);
    return code;
  };
  return d;
}

}  // namespace chorus::losses
