// Training, scoring and predicting with a fused model. A plain member is a fused model of K = 1, so
// that solo and fused runs are the same code and draw the same random numbers.
//
// Every member trains as if alone: vectors of options have K entries, one per member, or are empty
// where the option is off.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "chorus/dataset.h"
#include "chorus/fused_model.h"
#include "chorus/schedule.h"

namespace chorus {

enum class Shuffle { Shared, Member, None };

/// What becomes of a member whose loss or gradient is not finite: it goes on as in PyTorch; it
/// keeps every byte from then on; it leaves out the update; the run ends.
enum class OnNan { Continue, Freeze, Skip, Stop };

struct TrainOptions {
  std::vector<int64_t> epochs;      ///< a member whose epochs are over keeps every byte
  std::vector<int64_t> batch_size;  ///< members of different sizes train side by side
  bool drop_last = false;
  Shuffle shuffle = Shuffle::Shared;
  uint64_t seed = 0;
  int64_t accumulate = 1;  ///< micro-batches per update; their mean counts
  std::vector<double>
      clip_norm;  ///< as torch.nn.utils.clip_grad_norm_ over the member's parameters
  std::vector<double> clip_value;  ///< as clip_grad_value_
  OnNan on_nan = OnNan::Continue;
  std::vector<Schedule> schedules;
  /// Rows that a member trains on, and those that it is scored on: int64, with repeats; else all.
  std::vector<at::Tensor> rows, validation_rows;

  // Early stopping, and which epoch is kept.
  std::vector<int64_t> patience;  ///< epochs without an improvement of more than min_delta
  std::vector<double> min_delta;
  std::string monitor = "val_loss";  ///< train_loss, val_loss, or train_ or val_ and a metric
  bool restore_best = false;

  std::vector<double> ema;  ///< decay of a moving average of the parameters
  /// Epoch, from 1, from which on the parameters after each epoch are averaged, as
  /// torch.optim.swa_utils.AveragedModel does; batch norms are measured anew at the end. Not with
  /// `ema` nor `restore_best`.
  std::vector<int64_t> swa;
  bool recalibrate = false;  ///< batch norms are measured anew at the end, as update_bn does
  /// Autocast: at::kBFloat16 or at::kHalf (then each member has a loss scale of its own).
  std::optional<at::ScalarType> amp;
  std::vector<std::string> metrics;  ///< see runtime/metrics.h; empty: the loss's own

  int64_t checkpoint_every = 0;  ///< steps; 0: at the ends of epochs only
};

/// One number per member. NaN where a member did not take part.
struct Scores {
  std::vector<double> loss;  ///< mean over rows; batches weigh by their rows
  std::map<std::string, std::vector<double>> metrics;  ///< e.g. "accuracy", in [0,1]
};

struct EpochResult {
  int64_t epoch = 0;  ///< from 1
  std::vector<bool> active;
  std::vector<double> train_loss;
  std::map<std::string, std::vector<double>> train_metrics;
  std::optional<Scores> validation;
  std::vector<double> lr;  ///< of the epoch's last update
  double seconds = 0;
};

/// How a member's training ended.
struct MemberEnd {
  std::string reason;      ///< "" (all epochs), "stopped early", "not finite", ...
  int64_t epochs = 0;      ///< that it took part in
  int64_t best_epoch = 0;  ///< whose state it has, where the best is restored; else 0
};

struct TrainResult {
  std::vector<EpochResult> epochs;
  std::vector<MemberEnd> members;
  /// Validation scores of what is left in the model, where the last epoch's are of something else.
  std::optional<Scores> written;
  bool interrupted = false;
};

/// What the caller hears while a training runs. Every function may be empty.
struct TrainObserver {
  std::function<void(const EpochResult&)> on_epoch;
  /// After each batch: the epoch from 1, batches done in it and in all.
  std::function<void(int64_t epoch, int64_t done, int64_t count)> on_batch;
  /// Asked after each step: true ends the run, after a checkpoint.
  std::function<bool()> should_stop;
  /// Gets a model whose `info["run"]` and `extra` continue the run, bit for bit; `urgent` where it
  /// has to be written (at an interruption), else the receiver may leave it out.
  std::function<void(const FusedModel& model, bool urgent)> checkpoint;
};

/// Trains `model` in place (tensors, optimizer state, step). Its loss and optimizer must be set.
/// Goes on where `model.info["run"]` says, if it is there (a checkpoint). Refuses batch sizes and
/// ops that cannot work before the first step. `active` and the hyperparameters are as before at
/// the end.
TrainResult train(FusedModel& model, const Dataset& data, const Dataset* validation,
                  const TrainOptions& options, const TrainObserver& observer,
                  Diagnostics& diagnostics);

/// Loss and metrics in eval mode. Moves nothing. `batch_sizes`: one per member. `rows`: per member,
/// or empty.
Scores evaluate(const FusedModel& model, const Dataset& data,
                const std::vector<int64_t>& batch_sizes, uint64_t seed = 0,
                const std::vector<at::Tensor>& rows = {},
                const std::vector<std::string>& metrics = {});

/// The outputs in eval mode: each [K,N,...].
std::vector<at::Tensor> predict(const FusedModel& model, const Dataset& data, int64_t batch_size,
                                uint64_t seed = 0);

/// The metrics that apply where none are asked for: "accuracy" for class targets.
std::vector<std::string> defaultMetrics(const FusedModel& model, const Dataset& data);

/// Throws Refused (error) where the model cannot work on batches of `rows` rows: the export fixed
/// another batch size, or (in training) a batch norm would see one value per channel.
void checkBatch(const FusedModel& model, int64_t rows, bool training);

/// `k` disjoint parts of the rows 0..n-1, sizes differ by at most one, dealt in an order drawn from
/// `seed`. Member i is scored on part i and trains on the others.
std::vector<at::Tensor> foldRows(int64_t n, size_t k, uint64_t seed);
/// n of n rows with replacement: a function of (seed, member seed).
at::Tensor bootstrapRows(int64_t n, uint64_t seed, uint64_t member_seed);

}  // namespace chorus
