#include "chorus/trainer.h"

#include <chrono>
#include <cmath>

#include "lib/export/state.h"
#include "runtime/executor.h"
#include "runtime/gradients.h"
#include "runtime/metrics.h"

namespace chorus {
namespace {

using Clock = std::chrono::steady_clock;

void checkBatches(const FusedModel& model, const Dataset& data, int64_t batch_size, bool drop_last,
                  bool training) {
  const int64_t rows = data.rows();
  if (drop_last && rows < batch_size) {
    throw Refused(error("there are " + std::to_string(rows) + " rows, fewer than a batch of " +
                            std::to_string(batch_size) + ", and --drop-last leaves none",
                        Place{data.path}));
  }
  if (rows >= batch_size) checkBatch(model, batch_size, training);
  if (rows % batch_size != 0 && !drop_last) checkBatch(model, rows % batch_size, training);
}

/// One run of `train`: what its epochs share.
class Training {
 public:
  Training(FusedModel& model, const Dataset& data, const TrainOptions& options,
           const TrainObserver& observer)
      : model_(model),
        data_(data),
        options_(options),
        observer_(observer),
        executor_(model, options.seed) {
    direct_ = options.accumulate == 1 && options.clip_norm.empty() && options.clip_value.empty();
  }

  Executor& executor() { return executor_; }

  /// Mean losses; NaN for members that rest.
  std::vector<double> epoch(int64_t number, const std::vector<bool>& active) {
    const Batches batches(data_, options_.batch_size, options_.drop_last, orderOf(number));
    executor_.train();
    LossMean mean;
    for (int64_t i = 0; i < batches.count(); ++i) {
      const Batch batch = batches.at(i);
      mean.add(direct_ ? executor_.trainStep(batch) : microBatch(batch, i, batches.count()),
               batch.rows);
      for (size_t k = 0; k < active.size(); ++k) executor_.random().steps[k] += active[k];
      if (observer_.on_batch) observer_.on_batch(number + 1, i + 1, batches.count());
    }
    std::vector<double> losses = mean.values();
    for (size_t k = 0; k < active.size(); ++k) {
      if (!active[k]) losses[k] = std::numeric_limits<double>::quiet_NaN();
    }
    return losses;
  }

 private:
  at::Tensor orderOf(int64_t epoch) const {
    const auto number = static_cast<uint64_t>(epoch);
    const int64_t rows = data_.rows();
    if (options_.shuffle == Shuffle::None) return {};
    if (options_.shuffle == Shuffle::Shared) return sharedOrder(rows, options_.seed, number);
    std::vector<at::Tensor> orders;
    for (uint64_t seed : model_.member_seeds)
      orders.push_back(memberOrder(rows, options_.seed, seed, number));
    return at::stack(orders);
  }

  /// Part i of the epoch's cycles of `accumulate` micro-batches; a short last cycle is divided by
  /// its own count.
  at::Tensor microBatch(const Batch& batch, int64_t i, int64_t count) {
    const int64_t cycle = i / options_.accumulate * options_.accumulate;
    const int64_t parts = std::min(options_.accumulate, count - cycle);
    auto [losses, gradients] = executor_.gradients(batch);
    if (parts > 1) accumulateGradients(total_, gradients, parts);
    if (i - cycle + 1 < parts) return losses;
    std::vector<at::Tensor> whole = parts > 1 ? std::exchange(total_, {}) : std::move(gradients);
    if (!options_.clip_norm.empty()) clipNorm(whole, options_.clip_norm);
    if (!options_.clip_value.empty()) clipValue(whole, options_.clip_value);
    executor_.update(whole);
    return losses;
  }

  FusedModel& model_;
  const Dataset& data_;
  const TrainOptions& options_;
  const TrainObserver& observer_;
  Executor executor_;
  bool direct_ = true;
  std::vector<at::Tensor> total_;
};

Scores scoresOf(Executor& executor, const FusedModel& model, const Dataset& data,
                int64_t batch_size) {
  executor.eval();
  const bool accuracy_applies = Accuracy::applies(model, data);
  std::optional<Accuracy> accuracy;
  if (accuracy_applies) accuracy.emplace(model);
  LossMean mean;
  const Batches batches(data, batch_size, /*drop_last=*/false);
  for (int64_t i = 0; i < batches.count(); ++i) {
    const Batch batch = batches.at(i);
    const std::vector<at::Tensor> outputs = executor.outputs(batch);
    mean.add(executor.loss(outputs, batch.target), batch.rows);
    if (accuracy) accuracy->add(outputs.front(), batch.target);
  }
  Scores scores;
  scores.loss = mean.values();
  if (accuracy) scores.metric = accuracy->values();
  return scores;
}

/// While members rest, and if a run ends early: afterwards the flags are as they were.
class ActiveGuard {
 public:
  explicit ActiveGuard(FusedModel& model) : flags_(model.active), before_(model.active.clone()) {}
  ~ActiveGuard() { flags_.copy_(before_); }
  ActiveGuard(const ActiveGuard&) = delete;
  ActiveGuard& operator=(const ActiveGuard&) = delete;

  /// Who trains in an epoch, from 0.
  std::vector<bool> set(int64_t epoch, const std::vector<int64_t>& epochs) {
    std::vector<bool> active;
    for (size_t k = 0; k < epochs.size(); ++k) {
      active.push_back(epoch < epochs[k] && before_.data_ptr<bool>()[k]);
      flags_.data_ptr<bool>()[k] = active[k];
    }
    return active;
  }

 private:
  at::Tensor flags_, before_;
};

void warnNotFinite(const EpochResult& result, const FusedModel& model, std::vector<bool>& warned,
                   Diagnostics& diagnostics) {
  for (size_t k = 0; k < model.k(); ++k) {
    if (!result.active[k] || warned[k] || std::isfinite(result.train_loss[k])) continue;
    warned[k] = true;
    diagnostics.add(warning("the loss of member " + std::to_string(k) + " ('" +
                            model.member_names[k] + "') is not finite in epoch " +
                            std::to_string(result.epoch)));
  }
}

}  // namespace

std::string metricName(const FusedModel& model, const Dataset& data) {
  return Accuracy::applies(model, data) ? "accuracy" : "";
}

std::vector<EpochResult> train(FusedModel& model, const Dataset& data, const Dataset* validation,
                               const TrainOptions& options, const TrainObserver& observer,
                               Diagnostics& diagnostics) {
  checkBatches(model, data, options.batch_size, options.drop_last, /*training=*/true);
  if (validation) checkBatches(model, *validation, options.batch_size, false, /*training=*/false);
  // The module works on the state that the model holds.
  model.state = optimizerState(model);
  Training training(model, data, options, observer);
  ActiveGuard active(model);
  std::vector<EpochResult> results;
  std::vector<bool> warned(model.k(), false);
  const int64_t last = *std::max_element(options.epochs.begin(), options.epochs.end());
  for (int64_t epoch = 0; epoch < last; ++epoch) {
    EpochResult result;
    result.epoch = epoch + 1;
    result.active = active.set(epoch, options.epochs);
    const auto begin = Clock::now();
    result.train_loss = training.epoch(epoch, result.active);
    result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (validation) {
      result.validation = scoresOf(training.executor(), model, *validation, options.batch_size);
    }
    warnNotFinite(result, model, warned, diagnostics);
    if (observer.on_epoch) observer.on_epoch(result);
    results.push_back(std::move(result));
  }
  return results;
}

Scores evaluate(const FusedModel& model, const Dataset& data, int64_t batch_size, uint64_t seed) {
  checkBatches(model, data, batch_size, false, /*training=*/false);
  Executor executor(model, seed);
  return scoresOf(executor, model, data, batch_size);
}

std::vector<at::Tensor> predict(const FusedModel& model, const Dataset& data, int64_t batch_size,
                                uint64_t seed) {
  checkBatches(model, data, batch_size, false, /*training=*/false);
  Executor executor(model, seed);
  executor.eval();
  std::vector<std::vector<at::Tensor>> parts;
  const Batches batches(data, batch_size, /*drop_last=*/false);
  for (int64_t i = 0; i < batches.count(); ++i) {
    const std::vector<at::Tensor> outputs = executor.outputs(batches.at(i));
    parts.resize(outputs.size());
    for (size_t o = 0; o < outputs.size(); ++o) parts[o].push_back(outputs[o]);
  }
  std::vector<at::Tensor> whole;
  for (const std::vector<at::Tensor>& part : parts) {
    if (part.front().dim() < 2) {
      throw Refused(unsupported("predictions of a model whose output has no row dimension"));
    }
    whole.push_back(at::cat(part, 1));  // [K,B,...] ... -> [K,N,...]
  }
  return whole;
}

}  // namespace chorus
