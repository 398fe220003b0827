#include "lib/losses/penalty.h"

#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition penalty(const std::string& name, const std::string& summary,
                       const std::string& size) {
  LossDefinition d;
  d.name = name;
  d.summary = summary;
  d.takes_target = false;
  d.by_rows = false;
  d.target = [](const LossRequest&) { return TargetRule{}; };
  d.build = [d, size](const LossRequest& request) {
    checkLossArguments(d, request);
    const std::string sum = ".unsqueeze(-1).flatten(1)." + size + "().sum(1)\n";
    LossCode code;
    code.body =
        "    parameters = self.chorus_trainable()\n"
        "    total = parameters[0]" +
        sum +
        "    for p in parameters[1:]:\n"
        "        total = total + p" +
        sum + "    return total\n";
    return code;
  };
  return d;
}

}  // namespace chorus::losses
