#include "tools/chorus-run/data_files.h"

#include <cmath>

#include "chorus/data.h"
#include "tools/common/values.h"

namespace chorus {
namespace {

bool isStacked(const std::string& option, const std::string& word) {
  if (word == "shared" || word == "stacked") return word == "stacked";
  throw Refused(usage(option + " takes 'shared' or 'stacked', not '" + word + "'"));
}

/// One word for all, or one per input.
std::vector<bool> stackedInputs(const RunOptions& options, size_t inputs) {
  const std::vector<std::string> words = splitText(options.inputs, ',');
  if (words.size() != 1 && words.size() != inputs) {
    throw Refused(usage("--inputs has " + std::to_string(words.size()) +
                        " words, but the model takes " + std::to_string(inputs) +
                        (inputs == 1 ? " input" : " inputs")));
  }
  std::vector<bool> stacked;
  for (const std::string& word : words) stacked.push_back(isStacked("--inputs", word));
  stacked.resize(inputs, stacked.front());
  return stacked;
}

bool stackedTarget(const RunOptions& options, const std::vector<bool>& inputs) {
  if (!options.targets.empty()) return isStacked("--targets", options.targets);
  if (inputs.empty()) return false;
  const bool mixed = std::count(inputs.begin(), inputs.end(), inputs.front()) !=
                     static_cast<int64_t>(inputs.size());
  if (mixed)
    throw Refused(
        usage("some inputs are shared and some stacked: --targets has to say what the target is"));
  return inputs.front();
}

DataRoles rolesOf(const RunOptions& options, const FusedModel& model) {
  DataRoles roles;
  const size_t inputs = model.prototype.inputs.size();
  roles.with_target = options.predict.empty() && findLoss(model.loss->name).takes_target;
  if (!options.keys.empty()) {
    roles.keys = splitText(options.keys, ',');
  } else if (const size_t wanted = inputs + (roles.with_target ? 1 : 0); wanted <= 2) {
    roles.keys = {"x"};
    if (wanted == 2) roles.keys.push_back("y");
  } else {
    throw Refused(usage("the model takes " + std::to_string(inputs) +
                        " inputs: --keys has to name their arrays" +
                        (roles.with_target ? " and then the target's" : "")));
  }
  // A prediction may be asked for with the keys of the training.
  if (!roles.with_target && !options.predict.empty() && roles.keys.size() == inputs + 1)
    roles.keys.pop_back();
  roles.stacked = stackedInputs(options, inputs);
  if (roles.with_target) roles.stacked.push_back(stackedTarget(options, roles.stacked));
  return roles;
}

int64_t validationRows(double fraction, const Dataset& data) {
  const auto rows = static_cast<int64_t>(std::llround(fraction * static_cast<double>(data.rows())));
  if (rows > 0 && rows < data.rows()) return rows;
  throw Refused(error("--val-fraction leaves " + std::to_string(rows) + " of " +
                          std::to_string(data.rows()) + " rows to score and the others to train on",
                      Place{data.path}));
}

}  // namespace

RunData readData(const RunOptions& options, const FusedModel& model, Diagnostics& diagnostics) {
  const DataRoles roles = rolesOf(options, model);
  RunData data;
  data.train = makeDataset(readArrays(options.data), options.data, roles, model, diagnostics);
  if (!options.validation.empty()) {
    data.validation =
        makeDataset(readArrays(options.validation), options.validation, roles, model, diagnostics);
  }
  if (options.validation_fraction) {
    const int64_t rows = validationRows(*options.validation_fraction, data.train);
    auto [train, validation] = splitRows(data.train, data.train.rows() - rows, options.seed);
    data.train = std::move(train);
    data.validation = std::move(validation);
  }
  return data;
}

}  // namespace chorus
