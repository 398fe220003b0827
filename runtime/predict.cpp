#include "chorus/trainer.h"
#include "lib/support/fault.h"
#include "runtime/evaluate.h"

namespace chorus {
namespace {

using Parts = std::vector<std::vector<at::Tensor>>;  ///< per output, per batch: [K,...]

/// All rows in the order of the file, batch by batch.
class Prediction {
 public:
  Prediction(const FusedModel& model, const Dataset& data, uint64_t seed)
      : model_(model), data_(data), executor_(model, seed) {
    executor_.eval();
  }

  EpochPlan plan(int64_t batch_size) const {
    return {data_, std::vector<at::Tensor>(1), std::vector<int64_t>(model_.k(), batch_size),
            /*drop_last=*/false};
  }

  Parts run(int64_t batch_size) {
    const EpochPlan rows = plan(batch_size);
    Parts parts;
    for (int64_t step = 0; step < rows.steps(); ++step) add(rows, step, parts);
    return parts;
  }

  /// The dimension of [K,...] along which the batches of an output lie.
  int64_t batchDim(size_t output, const std::vector<at::Tensor>& parts, int64_t batch_size) {
    if (fault("rows_come_first")) return 1;
    std::vector<int64_t> dims = candidates(output, parts, batch_size);
    if (dims.size() > 1) dims = probed(output, dims, batch_size);
    if (dims.size() == 1) return dims.front();
    throw Refused(unsupported("output " + std::to_string(output) + " of the model is " +
                              c10::str(parts.front().sizes().slice(1)) + " for " +
                              std::to_string(batch_size) +
                              " rows: which dimension holds the rows is not known")
                      .helpWith("--batch-size " + std::to_string(data_.rows()) +
                                " predicts all rows at once"));
  }

 private:
  void add(const EpochPlan& rows, int64_t step, Parts& parts) {
    const SubGroup all = rows.groups(step).front();
    const std::vector<at::Tensor> outputs = executor_.outputs(rows.batch(all, step));
    parts.resize(outputs.size());
    for (size_t o = 0; o < outputs.size(); ++o) parts[o].push_back(outputs[o]);
  }

  /// Dimensions that are as long as each batch has rows, and that the graph does not fix.
  std::vector<int64_t> candidates(size_t output, const std::vector<at::Tensor>& parts,
                                  int64_t batch_size) const {
    const EpochPlan rows = plan(batch_size);
    const auto type =
        model_.prototype.eval.graph->outputs()[output]->type()->cast<c10::TensorType>();
    std::vector<int64_t> dims;
    for (int64_t d = 1; d < parts.front().dim(); ++d) {
      bool fits = true;
      for (size_t step = 0; step < parts.size(); ++step) {
        fits = fits && parts[step].dim() == parts.front().dim() &&
               parts[step].size(d) == rows.rowsAt(0, static_cast<int64_t>(step));
      }
      const bool fixed = !model_.prototype.fixed_batch && type && type->dim() &&
                         type->sizes()[static_cast<size_t>(d) - 1].has_value();
      if (fits && !fixed) dims.push_back(d);
    }
    return dims;
  }

  /// Those that follow another number of rows.
  std::vector<int64_t> probed(size_t output, const std::vector<int64_t>& dims, int64_t batch_size) {
    if (model_.prototype.fixed_batch) return dims;
    const int64_t other = batch_size > 1 ? batch_size - 1 : 2;
    Parts parts;
    add(plan(other), 0, parts);
    std::vector<int64_t> following;
    for (const int64_t d : dims) {
      if (parts.at(output).front().size(d) == other) following.push_back(d);
    }
    return following;
  }

  const FusedModel& model_;
  const Dataset& data_;
  Executor executor_;
};

}  // namespace

std::vector<at::Tensor> predict(const FusedModel& model, const Dataset& data, int64_t batch_size,
                                uint64_t seed) {
  Prediction prediction(model, data, seed);
  checkBatches(model, prediction.plan(batch_size), /*training=*/false);
  const Parts parts = prediction.run(batch_size);
  std::vector<at::Tensor> whole;
  for (size_t o = 0; o < parts.size(); ++o) {
    const at::Tensor& first = parts[o].front();
    if (first.dim() == 2 && first.size(1) == 0) {
      whole.emplace_back();  // undefined: train mode alone has this output
      continue;
    }
    if (parts[o].size() == 1) {
      whole.push_back(parts[o].front());
      continue;
    }
    whole.push_back(at::cat(parts[o], prediction.batchDim(o, parts[o], batch_size)));
  }
  return whole;
}

}  // namespace chorus
