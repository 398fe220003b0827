// Training, scoring and predicting with a fused model. A plain member is a fused model of K = 1, so
// that solo and fused runs are the same code and draw the same random numbers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "chorus/dataset.h"
#include "chorus/fused_model.h"

namespace chorus {

enum class Shuffle { Shared, Member, None };

struct TrainOptions {
  std::vector<int64_t> epochs;  ///< K; a member whose epochs are over keeps every byte
  int64_t batch_size = 32;
  bool drop_last = false;
  Shuffle shuffle = Shuffle::Shared;
  uint64_t seed = 0;
  int64_t accumulate = 1;  ///< micro-batches per update; their mean counts
  std::vector<double>
      clip_norm;  ///< K, or empty; as torch.nn.utils.clip_grad_norm_ over the member's parameters
  std::vector<double> clip_value;  ///< K, or empty
};

/// One number per member. NaN where a member did not take part.
struct Scores {
  std::vector<double> loss;  ///< mean over rows; batches weigh by their rows
  std::vector<double>
      metric;  ///< accuracy in [0,1] for class targets; empty where the loss is all there is
};

struct EpochResult {
  int64_t epoch = 0;  ///< from 1
  std::vector<bool> active;
  std::vector<double> train_loss;
  std::optional<Scores> validation;
  double seconds = 0;
};

/// What the caller hears while a training runs. Every function may be empty.
struct TrainObserver {
  std::function<void(const EpochResult&)> on_epoch;
  /// After each batch: the epoch from 1, batches done in it and in all.
  std::function<void(int64_t epoch, int64_t done, int64_t count)> on_batch;
};

/// Trains `model` in place (tensors, optimizer state, step, active). Its loss and optimizer must be
/// set. Refuses batch sizes and ops that cannot work before the first step. `active` is all true
/// again at the end.
std::vector<EpochResult> train(FusedModel& model, const Dataset& data, const Dataset* validation,
                               const TrainOptions& options, const TrainObserver& observer,
                               Diagnostics& diagnostics);

/// Loss and metric in eval mode. Moves nothing.
Scores evaluate(const FusedModel& model, const Dataset& data, int64_t batch_size,
                uint64_t seed = 0);

/// The outputs in eval mode: each [K,N,...].
std::vector<at::Tensor> predict(const FusedModel& model, const Dataset& data, int64_t batch_size,
                                uint64_t seed = 0);

/// "accuracy" for class targets, else "". Of the model's loss and the data.
std::string metricName(const FusedModel& model, const Dataset& data);

/// Throws Refused (error) where the model cannot work on batches of `rows` rows: the export fixed
/// another batch size, or (in training) a batch norm would see one value per channel.
void checkBatch(const FusedModel& model, int64_t rows, bool training);

}  // namespace chorus
