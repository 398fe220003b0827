#include "chorus/dataset.h"
#include "lib/export/state.h"

namespace chorus {
namespace {

[[noreturn]] void refuse(const Dataset& data, const std::string& key, const std::string& text,
                         const std::string& help = "") {
  throw Refused(error("the weights '" + key + "' " + text, Place{data.path}).helpWith(help));
}

/// A weight per row needs a loss per row.
void checkLoss(const FusedModel& model) {
  const LossDefinition& loss = findLoss(model.loss->name);
  if (!loss.by_rows) {
    throw Refused(error("--sample-weight: the loss '" + loss.name +
                        "' is not made of losses of single rows"));
  }
  const LossRequest request = lossRequest(model);
  for (size_t i = 0; i < request.output_sizes.size(); ++i) {
    const auto& sizes = request.output_sizes[i];
    if (sizes.size() == 1 && sizes[0] == 0) continue;  // eval mode alone has it
    if (!sizes.empty() && (!sizes[0] || sizes[0] == model.prototype.fixed_batch)) continue;
    throw Refused(error("--sample-weight: output " + std::to_string(i) +
                        " of the model does not have the rows as its first dimension"));
  }
  if (loss.target(request).class_indices && model.loss->tensors.contains("weight")) {
    throw Refused(error("--sample-weight does not go with class weights of '" + loss.name + "'")
                      .helpWith("multiply each row's weight by that of its class"));
  }
}

/// A row that the loss ignores has no loss to be weighed.
void checkIgnored(const Dataset& data, const FusedModel& model, const std::string& key) {
  const TargetRule rule = findLoss(model.loss->name).target(lossRequest(model));
  if (!data.target || !rule.class_indices || data.target->values.scalar_type() != at::kLong) return;
  const at::Tensor rows = data.target->values.flatten(0, data.target->stacked ? 1 : 0);
  for (const int64_t ignored : rule.ignored) {
    const at::Tensor whole = rows.eq(ignored).reshape({rows.size(0), -1}).all(1);
    if (!whole.any().item<bool>()) continue;
    const int64_t row = whole.to(at::kByte).argmax().item<int64_t>() % data.rows();
    refuse(data, key,
           "weigh row " + std::to_string(row) + ", which the loss ignores (" +
               std::to_string(ignored) + ")",
           "--subset leaves rows out");
  }
}

}  // namespace

void setWeights(Dataset& data, const std::string& key, const at::Tensor& weights,
                const FusedModel& model) {
  checkLoss(model);
  const auto k = static_cast<int64_t>(model.k());
  const bool stacked = weights.dim() == 2;
  if ((weights.dim() != 1 && !stacked) || weights.size(-1) != data.rows() ||
      (stacked && weights.size(0) != k)) {
    refuse(data, key,
           c10::str("have sizes ", weights.sizes(),
                    ", which are neither [N] nor [K,N] "
                    "with N = ",
                    data.rows(), ", K = ", k));
  }
  if (weights.is_complex()) refuse(data, key, "are complex");
  const at::Tensor values = weights.to(at::kDouble).contiguous();
  const at::Tensor bad = at::isfinite(values).logical_not().logical_or(values < 0);
  if (bad.any().item<bool>()) {
    const int64_t flat = bad.flatten().to(at::kByte).argmax().item<int64_t>();
    refuse(data, key,
           c10::str("have the value ", values.flatten()[flat].item<double>(), " in row ",
                    flat % data.rows(), ", but a weight is a number of 0 or more"));
  }
  checkIgnored(data, model, key);
  data.weights = DataArray{key, values, stacked};
}

}  // namespace chorus
