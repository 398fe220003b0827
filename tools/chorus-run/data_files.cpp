#include "tools/chorus-run/data_files.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "chorus/data.h"
#include "chorus/trainer.h"
#include "tools/common/data_arrays.h"
#include "tools/common/json_text.h"
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
  const std::vector<std::string> more =
      roles.with_target ? findLoss(model.loss->name).more_targets : std::vector<std::string>();
  roles.more = more.size();
  if (!options.keys.empty()) {
    roles.keys = splitText(options.keys, ',');
  } else if (inputs == 1) {
    roles.keys = defaultKeys(roles.with_target, more);
  } else if (const size_t wanted = inputs + (roles.with_target ? 1 : 0); wanted <= 2) {
    roles.keys = {"x"};
    if (wanted == 2) roles.keys.push_back("y");
  } else {
    throw Refused(usage("the model takes " + std::to_string(inputs) +
                        " inputs: --keys has to name their arrays" +
                        (roles.with_target ? " and then the target's" : "")));
  }
  // A prediction may be asked for with the keys of the training.
  if (!roles.with_target && !options.predict.empty() && roles.keys.size() > inputs)
    roles.keys.resize(inputs);
  roles.stacked = stackedInputs(options, inputs);
  if (roles.with_target) {
    const bool stacked = stackedTarget(options, roles.stacked);
    roles.stacked.resize(roles.stacked.size() + 1 + roles.more, stacked);
  }
  return roles;
}

int64_t validationRows(double fraction, const Dataset& data) {
  const auto rows = static_cast<int64_t>(std::llround(fraction * static_cast<double>(data.rows())));
  if (rows > 0 && rows < data.rows()) return rows;
  throw Refused(error("--val-fraction leaves " + std::to_string(rows) + " of " +
                          std::to_string(data.rows()) + " rows to score and the others to train on",
                      Place{data.path}));
}

/// A JSON list of K lists of row numbers.
std::vector<at::Tensor> readSubsets(const std::string& path, size_t k, int64_t rows) {
  std::ifstream file(path);
  if (!file) throw Refused(error("cannot read the file", Place{path}));
  const nlohmann::json value =
      parseJsonText(path, {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  if (!value.is_array()) throw Refused(error("it is not a JSON list of lists", Place{path}));
  if (value.size() != k) {
    throw Refused(error("it has " + std::to_string(value.size()) + " lists of rows for " +
                            std::to_string(k) + (k == 1 ? " member" : " members"),
                        Place{path}));
  }
  std::vector<at::Tensor> subsets;
  for (size_t i = 0; i < k; ++i) {
    const std::string which = "list " + std::to_string(i);
    if (!value[i].is_array() || value[i].empty()) {
      throw Refused(error(which + " names no rows", Place{path}));
    }
    std::vector<int64_t> numbers;
    for (const auto& row : value[i]) {
      if (!row.is_number_integer() || row.get<int64_t>() < 0 || row.get<int64_t>() >= rows) {
        throw Refused(error(
            which + " has " + row.dump() + ", but rows are numbered 0.." + std::to_string(rows - 1),
            Place{path}));
      }
      numbers.push_back(row.get<int64_t>());
    }
    subsets.push_back(at::tensor(numbers, at::kLong));
  }
  return subsets;
}

/// Stacked arrays are of all members; those that take part have theirs.
void chooseMembers(const RunOptions& options, const DataRoles& roles,
                   std::map<std::string, at::Tensor>& arrays, const std::string& path) {
  const auto all = static_cast<int64_t>(options.allMembers(0));
  for (size_t i = 0; options.chosen && i < roles.keys.size() && i < roles.stacked.size(); ++i) {
    const auto found = arrays.find(roles.keys[i]);
    if (!roles.stacked[i] || found == arrays.end()) continue;
    if (found->second.dim() == 0 || found->second.size(0) != all) {
      throw Refused(error(c10::str("the stacked array '", found->first, "' has sizes ",
                                   found->second.sizes(), ", but there are ", all, " members"),
                          Place{path}));
    }
    found->second = options.rowsOfChosen(found->second);
  }
}

/// All rows but those of the part.
at::Tensor withoutRows(int64_t rows, const at::Tensor& part) {
  at::Tensor keep = at::ones({rows}, at::kBool);
  keep.index_fill_(0, part, false);
  return keep.nonzero().flatten();
}

void setFolds(const RunOptions& options, size_t k, RunData& data) {
  const int64_t rows = data.train.rows();
  const size_t all = options.allMembers(k);
  if (options.folds != static_cast<int64_t>(all)) {
    throw Refused(error("--folds is " + std::to_string(options.folds) + ", but there are " +
                        std::to_string(all) + " members")
                      .helpWith("chorus-fuse --replicate " + std::to_string(options.folds) +
                                " makes a member for each fold"));
  }
  if (options.folds > rows) {
    throw Refused(error("--folds " + std::to_string(options.folds) + " is more than the " +
                            std::to_string(rows) + " rows",
                        Place{data.train.path}));
  }
  data.validation_rows = options.ofChosen(foldRows(rows, all, options.seed));
  for (const at::Tensor& part : data.validation_rows) data.rows.push_back(withoutRows(rows, part));
  data.validation = data.train;
}

void setRows(const RunOptions& options, const FusedModel& model, RunData& data) {
  if (options.folds > 0) setFolds(options, model.k(), data);
  if (!options.subset.empty()) {
    data.rows = options.ofChosen(
        readSubsets(options.subset, options.allMembers(model.k()), data.train.rows()));
  }
  for (size_t k = 0; options.bootstrap && k < model.k(); ++k) {
    data.rows.push_back(bootstrapRows(data.train.rows(), options.seed, model.member_seeds.at(k)));
  }
}

/// An array of the data by this name; else a file of one array.
at::Tensor weightsOf(const std::string& name, const std::map<std::string, at::Tensor>& arrays) {
  if (const auto found = arrays.find(name); found != arrays.end()) return found->second;
  if (!std::filesystem::exists(name)) {
    throw Refused(
        error("--sample-weight: '" + name + "' is neither an array of the data nor a file"));
  }
  const std::vector<NamedArray> found = loadArrays(name);
  if (found.size() != 1) {
    throw Refused(error("--sample-weight: the file has " + std::to_string(found.size()) + " arrays",
                        Place{name}));
  }
  return found[0].values;
}

}  // namespace

RunData readData(const RunOptions& options, const FusedModel& model, Diagnostics& diagnostics) {
  const DataRoles roles = rolesOf(options, model);
  RunData data;
  auto arrays = readDataFiles("--data", options.data, roles.keys);
  chooseMembers(options, roles, arrays, options.data);
  data.train = makeDataset(arrays, options.data, roles, model, diagnostics);
  if (!options.sample_weight.empty()) {
    if (!options.trains()) throw Refused(usage("--sample-weight is for training"));
    at::Tensor weights = weightsOf(options.sample_weight, arrays);
    const auto all = static_cast<int64_t>(options.allMembers(model.k()));
    if (weights.dim() == 2 && weights.size(0) == all) weights = options.rowsOfChosen(weights);
    setWeights(data.train, options.sample_weight, weights, model);
  }
  if (!options.validation.empty()) {
    auto others = readDataFiles("--val", options.validation, roles.keys);
    chooseMembers(options, roles, others, options.validation);
    data.validation = makeDataset(others, options.validation, roles, model, diagnostics);
  }
  if (options.validation_fraction) {
    const int64_t rows = validationRows(*options.validation_fraction, data.train);
    auto [train, validation] = splitRows(data.train, data.train.rows() - rows, options.seed);
    data.train = std::move(train);
    data.validation = std::move(validation);
  }
  setRows(options, model, data);
  return data;
}

}  // namespace chorus
