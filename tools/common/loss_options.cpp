#include <algorithm>
#include <filesystem>

#include "chorus/data.h"
#include "chorus/import.h"
#include "lib/losses/scripted.h"
#include "lib/losses/sums.h"
#include "tools/common/training_options.h"
#include "tools/common/values.h"

namespace chorus {
namespace {

bool isArrayFile(const std::string& text) { return text.ends_with(".npy"); }

}  // namespace

std::optional<LossSpec> lossSpec(const TrainingOptions& options, size_t k) {
  if (options.loss.empty()) {
    if (!options.loss_arguments.empty()) {
      throw Refused(
          usage("--loss-arg '" + options.loss_arguments.front() + "' is given without --loss"));
    }
    if (!options.target.empty()) throw Refused(usage("--target is given without --loss"));
    return std::nullopt;
  }
  const bool sum = losses::isSum(options.loss) && !std::filesystem::is_regular_file(options.loss);
  if (!sum && losses::isLossFile(options.loss)) {
    if (!options.loss_arguments.empty()) {
      throw Refused(usage("--loss-arg: the loss '" + options.loss + "' is a file and takes none"));
    }
    return losses::scriptedSpec(options.loss, options.target);
  }
  const auto file = sum ? losses::fileTerm(options.loss) : std::nullopt;
  LossSpec spec = file ? losses::scriptedSpec(file->file, options.target) : LossSpec{};
  spec.name = file ? file->sum : options.loss;  // with the index of "output:1"
  const LossDefinition& definition = findLoss(spec.name);
  for (const std::string& text : options.loss_arguments) {
    const auto [name, value] = splitAssignment("--loss-arg", text);
    const auto& known = definition.arguments;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string near = nearest(name, known);
      throw Refused(usage("loss '" + definition.name + "' has no argument '" + name + "'" +
                          (near.empty() ? "" : "; did you mean '" + near + "'?")));
    }
    if (spec.arguments.count(name) || spec.tensors.count(name)) {
      throw Refused(usage("--loss-arg '" + name + "' is given twice"));
    }
    if (isArrayFile(value)) {
      spec.tensors[name] = loadArrays(value).front().values;
      continue;
    }
    std::vector<std::string> values = splitText(value, ',');
    if (values.size() != 1) values = oneOrKTexts("--loss-arg " + name, value, k);
    spec.arguments[name] = values;
  }
  return spec;
}

void checkTarget(const TrainingOptions& options, const FusedModel& model) {
  if (options.target.empty() || !model.loss) return;
  const InputSpec given = losses::parseTargetSpec(options.target);
  const LossDefinition& loss = findLoss(model.loss->name);
  if (!loss.takes_target) {
    throw Refused(error("--target is given, but the loss '" + loss.name + "' takes no target"));
  }
  const TargetRule rule = loss.target(lossRequest(model));
  if (rule.exact) return;
  const bool indices = rule.class_indices && at::isIntegralType(given.dtype, true);
  const size_t rank = indices ? rule.index_rank : rule.dense_rank;
  if (rank == given.rank() && rank > 0) return;
  throw Refused(error("--target is " + given.toString() + ", but the target of '" + loss.name +
                      "' has " +
                      (rank ? "rank " + std::to_string(rank) + " here"
                            : std::string("class numbers of an integer dtype")))
                    .helpWith("a target never broadcasts"));
}

}  // namespace chorus
