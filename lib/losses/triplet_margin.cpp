#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition triplet_margin() {
  LossDefinition d;
  d.name = "triplet_margin";
  d.summary = "the model's outputs are anchor, positive, negative; there is no target";
  d.arguments = {"margin", "p", "eps", "swap", "reduction"};
  d.takes_target = false;
  d.target = [](const LossRequest&) { return TargetRule{}; };
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    requireOutputs(request, d.name, 3, "anchor, positive and negative");
    for (size_t i = 0; i < 3; ++i) requireRank(request, d.name, i, 2);
    LossCode code;
    const std::string margin = number(request, code, "margin", 1, 2, {0, 1e300});
    const std::string eps = number(request, code, "eps", 1e-6, 3);
    const std::string p = oneText(request, "p", "2");
    numbers(request, "p", 2, {1e-300, 1e300});
    const auto distance = [&](const char* a, const char* b) {
      return std::string("torch.norm(") + a + " - " + b + " + " + eps + ", " + p + ", [2])";
    };
    std::string text =
        "    o = outputs[0]\n    positive = outputs[1]\n    negative = outputs[2]\n"
        "    assert o.size() == positive.size() and o.size() == negative.size(), "
        "\"triplet_margin: the outputs are {}, {} and {}\".format(o.size(), positive.size(), "
        "negative.size())\n"
        "    near = " +
        distance("o", "positive") + "\n    far = " + distance("o", "negative") + "\n";
    if (oneFlag(request, "swap", false)) {
      text += "    far = torch.minimum(far, " + distance("positive", "negative") + ")\n";
    }
    code.body = text + "    e = torch.clamp(" + margin + " + near - far, 0)\n" +
                reduced(reduction(request));
    return code;
  };
  return d;
}

}  // namespace chorus::losses
