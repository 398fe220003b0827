#include "runtime/examples.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "chorus/import.h"
#include "lib/export/state.h"
#include "lib/losses/sums.h"
#include "lib/support/packed_lengths.h"

namespace chorus {

namespace {

/// Any other number than 1 and -1 would leave these losses without a gradient.
bool takesSigns(const std::string& loss) {
  return loss == "cosine_embedding" || loss == "hinge_embedding" || loss == "soft_margin";
}

}  // namespace

Examples::Examples(const FusedModel& model, std::optional<at::ScalarType> dtype, uint64_t seed)
    : model_(model), dtype_(dtype), generator_(at::detail::createCPUGenerator(seed)) {}

Batch Examples::next(int64_t rows) {
  Batch batch;
  batch.rows = rows;
  for (size_t i = 0; i < model_.prototype.inputs.size(); ++i)
    batch.inputs.push_back(input(i, rows));
  if (!model_.loss) return batch;
  if (!findLoss(model_.loss->name).more_targets.empty()) {
    sequences(rows, batch);
  } else if (findLoss(model_.loss->name).takes_target) {
    batch.target = target(rows);
  }
  return batch;
}

Batch Examples::cast(Batch batch, std::optional<at::ScalarType> dtype) {
  const auto convert = [&](at::Tensor& tensor) {
    if (dtype && tensor.defined() && at::isFloatingType(tensor.scalar_type()))
      tensor = tensor.to(*dtype);
  };
  for (at::Tensor& input : batch.inputs) convert(input);
  convert(batch.target);
  return batch;
}

at::Tensor Examples::floating(const std::vector<int64_t>& sizes, at::ScalarType dtype,
                              bool positive) {
  const auto options = at::TensorOptions(dtype_.value_or(dtype));
  const at::Tensor drawn = positive ? at::rand(sizes, generator_) : at::randn(sizes, generator_);
  return drawn.to(options);
}

at::Tensor Examples::input(size_t i, int64_t rows) {
  const InputSpec& spec = model_.prototype.inputs[i];
  std::vector<int64_t> sizes;
  for (const auto& size : spec.sizes) sizes.push_back(size.value_or(rows));
  if (at::isFloatingType(spec.dtype)) return floating(sizes, spec.dtype, false);
  const auto lengths = inputsThatAreLengths(*model_.prototype.train.graph);
  if (const auto own = lengths.find(i); own != lengths.end() && sizes.size() == 1) {
    const at::Tensor drawn = at::randint(1, own->second.steps.value_or(1) + 1, sizes, generator_,
                                         at::TensorOptions(at::kLong));
    return std::get<0>(drawn.sort(0, /*descending=*/true)).to(spec.dtype);
  }
  const int64_t bound = spec.dtype == at::kBool ? 2 : spec.bound.value_or(tableSize(i));
  return at::randint(bound, sizes, generator_, at::TensorOptions(at::kLong)).to(spec.dtype);
}

/// The smallest table that the input indexes.
int64_t Examples::tableSize(size_t i) const {
  int64_t smallest = 2;
  bool found = false;
  for (const auto& use : model_.prototype.train.graph->inputs()[i]->uses()) {
    if (use.user->kind() != c10::aten::embedding || use.offset != 1) continue;
    const auto type = use.user->inputs()[0]->type()->expect<c10::TensorType>();
    const int64_t rows = type->sizes()[0].value_or(2);
    smallest = found ? std::min(smallest, rows) : rows;
    found = true;
  }
  return smallest;
}

at::Tensor Examples::target(int64_t rows) {
  const TargetRule rule = findLoss(model_.loss->name).target(lossRequest(model_));
  if (rule.exact) return exactTarget(*rule.exact, rows);
  std::vector<int64_t> sizes =
      checkBatchSize(model_.prototype, model_.prototype.train, rows).at(rule.output);
  if (!rule.class_indices) {
    // A target of fewer dimensions than the output has one number per row (per row and step, ...).
    if (rule.dense_rank > 0 && rule.dense_rank < sizes.size()) sizes.resize(rule.dense_rank);
    const at::Tensor drawn = floating(sizes, at::kFloat, true);
    return takesSigns(model_.loss->name) ? at::where(drawn < 0.5, -at::ones_like(drawn), 1) : drawn;
  }
  const size_t axis = sizes.size() > 1 ? 1 : 0;
  const int64_t classes = rule.classes.value_or(sizes.at(axis));
  sizes.erase(sizes.begin() + static_cast<int64_t>(axis));
  return at::randint(classes, sizes, generator_, at::TensorOptions(at::kLong));
}

/// Of ctc: one label per row, which fits any number of frames and is not the blank, 0 or another.
void Examples::sequences(int64_t rows, Batch& batch) {
  const std::vector<int64_t> output =
      checkBatchSize(model_.prototype, model_.prototype.train, rows).at(0);  // [T,N,C]
  const auto& arguments = model_.loss->arguments;
  const auto given = arguments.find("blank");
  const int64_t blank = given == arguments.end() ? 0 : std::stoll(given->second.at(0));
  batch.target = at::full({rows, 1}, (blank + 1) % output.at(2), at::kLong);
  batch.more = {at::full({rows}, output.at(0), at::kLong), at::ones({rows}, at::kLong)};
}

at::Tensor Examples::exactTarget(const TargetShape& shape, int64_t rows) {
  std::vector<int64_t> sizes;
  for (const auto& size : shape.sizes) sizes.push_back(size.value_or(rows));
  if (at::isFloatingType(shape.dtype)) return floating(sizes, shape.dtype, true);
  // Numbers of classes where the outputs have that many.
  const std::vector<int64_t> output =
      checkBatchSize(model_.prototype, model_.prototype.train, rows).at(0);
  const int64_t classes = output.size() > 1 && output.size() == sizes.size() + 1 ? output[1] : 2;
  const int64_t bound = shape.dtype == at::kBool ? 2 : shape.bound.value_or(classes);
  return at::randint(bound, sizes, generator_, at::TensorOptions(at::kLong)).to(shape.dtype);
}

}  // namespace chorus
