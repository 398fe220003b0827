#include "tools/chorus-fuse/example.h"

#include "chorus/loss.h"
#include "tools/chorus-fuse/options.h"
#include "tools/common/data_arrays.h"
#include "tools/common/report.h"
#include "tools/common/values.h"

namespace chorus {
namespace {

constexpr int64_t kRows = 4;

at::Tensor firstRows(const DataArray& array, int64_t rows) {
  return array.values.narrow(0, 0, rows).clone();
}

}  // namespace

ExampleData readExample(const FuseOptions& options) {
  ExampleData example;
  example.path = options.example;
  size_t behind = 0;  // keys that are no inputs
  if (const std::string& loss = options.training.loss; !loss.empty()) {
    TrainingOptions named = options.training;
    named.loss_arguments.clear();
    const LossDefinition& definition = findLoss(lossSpec(named, 1)->name);
    example.more = definition.more_targets.size();
    behind = definition.takes_target ? 1 + example.more : 0;
    example.keys = defaultKeys(definition.takes_target, definition.more_targets);
  } else {
    example.keys = defaultKeys(false, {});
  }
  if (!options.keys.empty()) example.keys = splitText(options.keys, ',');
  if (example.keys.size() <= behind) {
    throw Refused(usage("--keys names " + std::to_string(example.keys.size()) +
                        " arrays; the inputs come first, and the loss takes " +
                        std::to_string(behind) + " behind them"));
  }
  example.inputs = example.keys.size() - behind;
  example.arrays = readDataFiles("--example", options.example, example.keys);
  return example;
}

std::vector<InputSpec> exampleSpecs(const ExampleData& example) {
  std::vector<InputSpec> specs;
  for (size_t i = 0; i < example.inputs; ++i) {
    const at::Tensor& array = arrayNamed(example.arrays, example.keys[i], example.path);
    if (array.dim() == 0) {
      throw Refused(error("array '" + example.keys[i] + "' is one number and has no rows",
                          Place{example.path}));
    }
    InputSpec spec;
    spec.dtype = array.scalar_type();
    for (int64_t d = 0; d < array.dim(); ++d) {
      spec.sizes.push_back(d == 0 ? std::nullopt : std::optional(array.size(d)));
    }
    specs.push_back(spec);
  }
  return specs;
}

Batch exampleBatch(const ExampleData& example, const FusedModel& model) {
  DataRoles roles;
  roles.keys = example.keys;
  roles.with_target = example.inputs < example.keys.size();
  roles.more = example.more;
  roles.stacked.resize(roles.keys.size(), false);
  Diagnostics said;
  const Dataset data = makeDataset(example.arrays, example.path, roles, model, said);
  say(said);
  Batch batch;
  batch.rows = std::min(data.rows(), model.prototype.fixed_batch.value_or(kRows));
  for (const DataArray& input : data.inputs) batch.inputs.push_back(firstRows(input, batch.rows));
  if (data.target) batch.target = firstRows(*data.target, batch.rows);
  for (const DataArray& array : data.more) batch.more.push_back(firstRows(array, batch.rows));
  return batch;
}

}  // namespace chorus
