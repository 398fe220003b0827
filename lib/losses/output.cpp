#include "chorus/diagnostics.h"
#include "chorus/loss.h"

namespace chorus::losses {

namespace {

/// I of "output:I".
size_t outputIndex(const LossRequest& request) {
  const std::string& name = request.spec.name;
  if (name == "output") return 0;
  const std::string digits = name.substr(name.find(':') + 1);
  if (digits.empty() || digits.size() > 6 ||
      digits.find_first_not_of("0123456789") != std::string::npos) {
    throw Refused(usage("'" + name + "' does not name an output: write output:0"));
  }
  return std::stoul(digits);
}

}  // namespace

LossDefinition output() {
  LossDefinition d;
  d.name = "output";
  d.summary = "the model's own output (output:I: its I-th) is the loss";
  d.takes_target = false;
  d.by_rows = false;
  d.target = [](const LossRequest&) { return TargetRule{}; };
  d.build = [d](const LossRequest& request) {
    checkLossArguments(d, request);
    const size_t index = outputIndex(request);
    const size_t count = request.output_ranks.size();
    if (index >= count) {
      throw Refused(error("the loss is output " + std::to_string(index) + ", but the model has " +
                          std::to_string(count) + (count == 1 ? " output" : " outputs")));
    }
    if (request.output_ranks[index] != 0) {
      throw Refused(error("output " + std::to_string(index) + " has rank " +
                          std::to_string(request.output_ranks[index]) +
                          ", but a loss is a scalar (rank 0)"));
    }
    LossCode code;
    code.body = "    return outputs[" + std::to_string(index) + "]\n";
    return code;
  };
  return d;
}

}  // namespace chorus::losses
