#include "tools/chorus-run/run_inputs.h"

#include <torch/csrc/jit/ir/ir.h>

#include <fstream>
#include <iomanip>
#include <iterator>
#include <sstream>

#include "lib/support/hash.h"

namespace chorus {
namespace {

using nlohmann::json;

std::string hexadecimal(uint64_t hash) {
  std::ostringstream text;
  text << std::hex << std::setw(16) << std::setfill('0') << hash;
  return text.str();
}

uint64_t hashJson(const json& value) { return hashText(value.dump()); }

uint64_t hashNamed(uint64_t hash, const std::map<std::string, at::Tensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    hash = mixHash(mixHash(hash, hashText(name)), hashTensor(tensor));
  }
  return hash;
}

uint64_t hashFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return hashText(
      std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
}

uint64_t hashNumbers(const FusedModel& model) {
  uint64_t hash = hashTensor(model.step);
  for (const at::Tensor& tensor : model.tensors) hash = mixHash(hash, hashTensor(tensor));
  for (const VaryingNumber& number : model.varying) hash = mixHash(hash, hashTensor(number.values));
  return hashNamed(hashNamed(hash, model.state), model.extra);
}

uint64_t hashOptimizer(const OptimizerSpec& optimizer) {
  json groups = json::array();
  for (const ParameterGroup& group : optimizer.groups)
    groups.push_back({group.parameters, group.values});
  return hashJson({optimizer.name, optimizer.values, optimizer.flags, groups});
}

uint64_t hashLoss(const LossSpec& loss) {
  json arguments = loss.arguments;
  return hashNamed(mixHash(hashText(loss.name), hashJson(arguments)), loss.tensors);
}

void addData(const std::string& option, const Dataset& data, json& hashes) {
  const auto add = [&](const DataArray& array) {
    hashes["the array '" + array.key + "' of " + option] = hexadecimal(hashTensor(array.values));
  };
  for (const DataArray& array : data.inputs) add(array);
  if (data.target) add(*data.target);
  for (const DataArray& array : data.more) add(array);
  if (data.weights)
    hashes["what --sample-weight gives"] = hexadecimal(hashTensor(data.weights->values));
}

}  // namespace

json inputHashes(const RunOptions& options, const FusedModel& model, const RunData& data,
                 const TrainOptions& train) {
  json hashes = {
      {"the model's numbers", hexadecimal(hashNumbers(model))},
      {"the model's graph", hexadecimal(hashText(model.prototype.train.graph->toString(false)))},
      {"the optimizer", hexadecimal(hashOptimizer(*model.optimizer))},
      {"the loss", hexadecimal(hashLoss(*model.loss))},
      {"the seeds of the members", hexadecimal(hashJson(model.member_seeds))}};
  addData("--data", data.train, hashes);
  // With --folds they are the training data.
  if (data.validation && data.validation_rows.empty()) addData("--val", *data.validation, hashes);
  if (!options.subset.empty()) {
    uint64_t rows = 0;
    for (const at::Tensor& member : data.rows) rows = mixHash(rows, hashTensor(member));
    hashes["what --subset lists"] = hexadecimal(rows);
  }
  if (options.training.table) {
    json columns = options.training.table->columns;
    columns.erase("epochs");  // may grow
    hashes["the table of --hparams"] = hexadecimal(hashJson(columns));
  }
  for (const Schedule& schedule : train.schedules) {
    if (schedule.file.empty()) continue;
    hashes["the schedule's table '" + schedule.file + "'"] = hexadecimal(hashFile(schedule.file));
  }
  for (const std::string& metric : train.metrics) {
    if (metric.ends_with(".pt"))
      hashes["the metric '" + metric + "'"] = hexadecimal(hashFile(metric));
  }
  return hashes;
}

}  // namespace chorus
