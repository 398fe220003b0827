#include "chorus/diagnostics.h"
#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition multi_margin() {
  LossDefinition d;
  d.name = "multi_margin";
  d.summary = "hinge of the right class against each other one; class indices";
  d.arguments = {"p", "margin", "weight", "reduction"};
  d.target = [](const LossRequest& request) {
    TargetRule rule = classRule(request, false);
    rule.ignored.clear();
    return rule;
  };
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    requireRank(request, d.name, 0, 2);
    LossCode code;
    const std::string p = oneText(request, "p", "1");
    if (p != "1" && p != "2") throw Refused(error("multi_margin: p is " + p + ", not 1 or 2"));
    const std::string margin = number(request, code, "margin", 1, 3);
    const std::string weight = classWeight(request, code, d.name);
    std::string text = classTarget(request, d.name, false) +
                       "    index = t.to(4).unsqueeze(2)\n"
                       "    right = o.gather(2, index)\n"
                       "    e = torch.clamp(" +
                       margin + " - right + o, 0)\n";
    if (p == "2") text += "    e = e * e\n";
    if (!weight.empty()) text += "    e = e * (" + weight + ").expand_as(o).gather(2, index)\n";
    text += "    e = e.scatter(2, index, 0.0).sum(2) / o.size(2)\n";
    code.body = text + reduced(reduction(request));
    return code;
  };
  return d;
}

}  // namespace chorus::losses
