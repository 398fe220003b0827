#include "lib/losses/arguments.h"

namespace chorus::losses {

LossDefinition l1_penalty() {
  LossDefinition d;
  d.name = "l1_penalty";
  d.summary = "sum of the sizes of all trainable numbers, as a term: \"mse + 1e-4*l1_penalty\"";
  d.takes_target = false;
  d.by_rows = false;
  d.target = [](const LossRequest&) { return TargetRule{}; };
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    LossCode code;
    code.body =
        "    parameters = self.chorus_trainable()\n"
        "    total = parameters[0].unsqueeze(-1).flatten(1).abs().sum(1)\n"
        "    for p in parameters[1:]:\n"
        "        total = total + p.unsqueeze(-1).flatten(1).abs().sum(1)\n"
        "    return total\n";
    return code;
  };
  return d;
}

}  // namespace chorus::losses
