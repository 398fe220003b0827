#include "chorus/trainer.h"

#include <chrono>
#include <cmath>

#include "lib/export/state.h"
#include "lib/support/fault.h"
#include "runtime/evaluate.h"
#include "runtime/recalibrate.h"
#include "runtime/watch.h"

namespace chorus {
namespace {

using Clock = std::chrono::steady_clock;

/// While members rest, and if a run ends early: afterwards the flags are as they were.
class ActiveGuard {
 public:
  explicit ActiveGuard(FusedModel& model) : flags_(model.active), before_(model.active.clone()) {}
  ~ActiveGuard() { flags_.copy_(before_); }
  ActiveGuard(const ActiveGuard&) = delete;
  ActiveGuard& operator=(const ActiveGuard&) = delete;

  bool before(size_t k) const { return before_.data_ptr<bool>()[k]; }

 private:
  at::Tensor flags_, before_;
};

/// For its lifetime the averaged parameters stand in for the trained ones.
class AveragedScope {
 public:
  explicit AveragedScope(FusedModel& model) : model_(model) { swap(); }
  ~AveragedScope() { swap(); }
  AveragedScope(const AveragedScope&) = delete;
  AveragedScope& operator=(const AveragedScope&) = delete;

 private:
  void swap() {
    const at::NoGradGuard no_grad;
    for (const size_t slot : trainableSlots(model_)) {
      const auto found = model_.extra.find("ema." + std::to_string(slot));
      if (found == model_.extra.end()) continue;
      const at::Tensor p = model_.tensors[slot].detach(), before = p.clone();
      p.copy_(found->second);
      found->second.copy_(before);
    }
  }
  FusedModel& model_;
};

/// One run of `train`.
class Trainer {
 public:
  Trainer(FusedModel& model, const Dataset& data, const Dataset* validation,
          const TrainOptions& options, const TrainObserver& observer, Diagnostics& diagnostics)
      : model_(model),
        data_(data),
        validation_(validation),
        options_(options),
        observer_(observer),
        diagnostics_(diagnostics),
        active_(model),
        state_(startState(model)),
        stepper_(model, options, state_) {
    refuseFewerEpochs();
    startAverages();
  }

  TrainResult run() {
    const int64_t last = *std::max_element(options_.epochs.begin(), options_.epochs.end());
    if (!state_.history.empty() && state_.step == 0 && allDone()) {
      diagnostics_.add(remark("the run had ended before: no epoch is left to train"));
    }
    bool interrupted = false;
    while (state_.epoch < last && !interrupted && !allDone()) interrupted = !epoch();
    TrainResult result;
    result.interrupted = interrupted;
    if (!interrupted) result.written = finish();
    result.epochs = state_.history;
    result.members = state_.ends;
    return result;
  }

 private:
  static RunState startState(FusedModel& model) {
    if (!model.info.is_object() || !model.info.contains("run")) return RunState(model.k());
    try {
      RunState state = RunState::fromJson(model.info.at("run"), model.k());
      for (auto& [name, tensor] : state.metric_sums) {
        tensor = model.extra.at("metric." + name);
        model.extra.erase("metric." + name);
      }
      model.info.erase("run");
      if (fault("resume_forgets")) state.updates.assign(model.k(), 0);
      return state;
    } catch (const std::exception& failure) {
      throw Refused(error("the checkpoint is damaged").note(failure.what()));
    }
  }

  /// A run that goes on cannot take epochs back.
  void refuseFewerEpochs() const {
    for (size_t k = 0; k < model_.k(); ++k) {
      const bool within = state_.step > 0 && state_.taking_part[k] && state_.alive[k];
      if (options_.epochs[k] >= state_.ends[k].epochs + within) continue;
      throw Refused(error("member " + std::to_string(k) + " ('" + model_.member_names[k] +
                          "') has trained for " + std::to_string(state_.ends[k].epochs) +
                          (within ? " epochs and a part of the next" : " epochs") +
                          ", but --epochs is " + std::to_string(options_.epochs[k]))
                        .note("--epochs is the total, also of a run that goes on"));
    }
  }

  bool averages() const { return !options_.ema.empty() || !options_.swa.empty(); }

  void startAverages() {
    // Of an earlier run, which this one goes on with.
    const bool begun = state_.history.empty() && state_.epoch == 0 && state_.step == 0;
    const auto count = model_.extra.find("swa.count");
    const bool counted = count != model_.extra.end();
    if (!averages() || (begun && counted == options_.swa.empty())) {
      std::erase_if(model_.extra, [](const auto& entry) {
        return entry.first.rfind("ema.", 0) == 0 || entry.first == "swa.count";
      });
    }
    if (!averages()) return;
    for (const size_t slot : trainableSlots(model_)) {
      at::Tensor& mean = model_.extra["ema." + std::to_string(slot)];
      if (begun && mean.defined()) state_.averaged.assign(model_.k(), true);
      if (!mean.defined()) mean = model_.tensors[slot].detach().clone();
    }
    if (const auto known = model_.extra.find("swa.count"); known != model_.extra.end()) {
      for (size_t k = 0; k < model_.k(); ++k) {
        state_.averages[k] = known->second[static_cast<int64_t>(k)].item<int64_t>();
      }
      model_.extra.erase(known);
    }
  }

  /// --swa: the parameters after this epoch count as one more of the average.
  void averageEpoch(const std::vector<bool>& active) {
    const at::NoGradGuard no_grad;
    for (size_t k = 0; k < model_.k() && !options_.swa.empty(); ++k) {
      if (!active[k] || !state_.alive[k] || state_.epoch < options_.swa[k]) continue;
      const auto row = static_cast<int64_t>(k);
      const double share = 1 / static_cast<double>(++state_.averages[k]);
      for (const size_t slot : trainableSlots(model_)) {
        at::Tensor mean = model_.extra.at("ema." + std::to_string(slot))[row];
        const at::Tensor now = model_.tensors[slot].detach()[row];
        mean.copy_(fault("average_is_last") || share == 1 ? now : at::lerp(mean, now, share));
      }
    }
  }

  bool trains(size_t k) const {
    return state_.alive[k] && state_.epoch < options_.epochs[k] && active_.before(k);
  }
  bool allDone() const {
    for (size_t k = 0; k < model_.k(); ++k) {
      if (trains(k)) return false;
    }
    return true;
  }

  /// False: interrupted.
  bool epoch() {
    EpochResult result;
    result.epoch = state_.epoch + 1;
    // A member that fails within an epoch took part in it, also after a resume.
    for (size_t k = 0; k < model_.k() && state_.step == 0; ++k) state_.taking_part[k] = trains(k);
    result.active = state_.taking_part;
    std::vector<bool> now;
    for (size_t k = 0; k < model_.k(); ++k) now.push_back(trains(k));
    const EpochPlan plan(data_, trainingOrders(model_, data_, options_, state_.epoch),
                         options_.batch_size, options_.drop_last);
    stepper_.beginEpoch(now);
    Metrics metrics = trainMetrics();
    metrics.sums = std::exchange(state_.metric_sums, {});
    auto begin = Clock::now();
    for (; state_.step < plan.steps(); ++state_.step) {
      if (observer_.should_stop && observer_.should_stop()) {
        state_.seconds += since(begin);
        checkpoint(metrics, /*urgent=*/true);
        return false;
      }
      stepper_.step(plan, state_.step, state_.losses, metrics, diagnostics_);
      stopIfAsked();
      const int64_t every = options_.checkpoint_every;
      if (every > 0 && (state_.step + 1) % every == 0 && state_.step + 1 < plan.steps()) {
        ++state_.step;
        checkpoint(metrics, /*urgent=*/true);
        --state_.step;
      }
      if (observer_.on_batch) {
        observer_.on_batch(result.epoch, state_.step + 1, plan.steps());
      }
    }
    state_.seconds += since(begin);
    endEpoch(std::move(result), metrics);
    return true;
  }

  /// The metrics that add up step by step; the others are worked out on the validation data only.
  Metrics trainMetrics() const {
    std::vector<std::string> names = options_.metrics;
    std::erase_if(names, [](const std::string& name) {
      return name == "auroc" || name == "f1" || isMetricFile(name);
    });
    if (names.empty() && !options_.metrics.empty()) return Metrics(model_);
    return {model_, data_, names};
  }

  static double since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  void stopIfAsked() const {
    if (options_.on_nan != OnNan::Stop) return;
    for (size_t k = 0; k < model_.k(); ++k) {
      const std::string& reason = state_.ends[k].reason;
      if (!reason.ends_with("not finite")) continue;
      throw Refused(error("the " + reason.substr(0, reason.find(' ')) + " of member " +
                          std::to_string(k) + " ('" + model_.member_names[k] +
                          "') is not finite in epoch " + std::to_string(state_.epoch + 1) +
                          ", step " + std::to_string(state_.step + 1))
                        .helpWith("--on-nan freeze stops this member only; --on-nan skip leaves "
                                  "out its update"));
    }
  }

  void endEpoch(EpochResult result, const Metrics& metrics) {
    result.train_loss = state_.losses.values();
    result.train_metrics = metrics.values(result.train_loss);
    result.seconds = std::exchange(state_.seconds, 0.0);
    result.lr = stepper_.values().values.at("lr");
    const double none = std::numeric_limits<double>::quiet_NaN();
    for (size_t k = 0; k < model_.k(); ++k) {
      if (result.active[k]) {
        state_.ends[k].epochs = result.epoch;
        continue;
      }
      result.train_loss[k] = none;
      for (auto& [name, values] : result.train_metrics) values[k] = none;
    }
    state_.losses = LossMean(model_.k());
    state_.step = 0;
    ++state_.epoch;
    averageEpoch(result.active);
    if (validation_) result.validation = score(!options_.ema.empty());
    watch(model_, options_, state_, result, stepper_.values());
    state_.history.push_back(result);
    if (observer_.on_epoch) observer_.on_epoch(result);
    checkpoint(Metrics(model_), /*urgent=*/false);
  }

  /// Each member is scored in batches of its own size: those of another would change its loss.
  std::vector<int64_t> scoringSizes() const {
    if (!fault("scored_in_other_batches")) return options_.batch_size;
    return std::vector<int64_t>(model_.k(), options_.batch_size.front());
  }

  Scores score(bool of_averages) {
    std::optional<AveragedScope> averaged;
    if (of_averages) averaged.emplace(model_);
    return scoresOf(model_, *validation_, scoringSizes(), options_.validation_rows,
                    options_.metrics, [&](const SubGroup& group) -> Executor& {
                      Executor& executor = stepper_.executorOf(group);
                      executor.eval();
                      return executor;
                    });
  }

  void checkpoint(const Metrics& metrics, bool urgent) {
    if (!observer_.checkpoint) return;
    for (const auto& [name, tensor] : metrics.sums) {
      model_.extra["metric." + name] = tensor;
      state_.metric_sums[name] = tensor;
    }
    model_.info["run"] = state_.toJson();
    observer_.checkpoint(model_, urgent);
    model_.info.erase("run");
    for (const auto& [name, tensor] : metrics.sums) model_.extra.erase("metric." + name);
    state_.metric_sums.clear();
  }

  /// What the trained file holds: the best epoch's state, the averaged parameters.
  std::optional<Scores> finish() {
    std::erase_if(model_.extra,
                  [](const auto& entry) { return entry.first.rfind("total.", 0) == 0; });
    if (options_.restore_best) restoreBest(model_, state_);
    if (averages()) takeAverages();
    const bool measures = (options_.recalibrate || !options_.swa.empty()) && hasBatchNorms(model_);
    if (measures) measure();
    if (!validation_ || (!measures && options_.swa.empty())) return std::nullopt;
    return score(/*of_averages=*/false);
  }

  void takeAverages() {
    const at::NoGradGuard no_grad;
    std::vector<size_t> none;  // no epoch of these was averaged
    for (size_t k = 0; k < model_.k() && !options_.swa.empty(); ++k) {
      if (state_.averages[k] == 0) none.push_back(k);
    }
    for (const size_t slot : trainableSlots(model_)) {
      const std::string mean = "ema." + std::to_string(slot);
      const at::Tensor p = model_.tensors[slot].detach();
      for (const size_t k : none) {
        const auto row = static_cast<int64_t>(k);
        model_.extra.at(mean)[row].copy_(p[row]);
      }
      model_.extra["raw." + std::to_string(slot)] = p.clone();
      p.copy_(model_.extra.at(mean));
      model_.extra.erase(mean);
    }
    if (options_.swa.empty()) return;
    model_.extra["swa.count"] = at::tensor(state_.averages, at::kLong);
    for (const size_t k : none) {
      diagnostics_.add(warning("member " + std::to_string(k) + " ('" + model_.member_names[k] +
                               "') ended before epoch " + std::to_string(options_.swa[k]) +
                               ": nothing is averaged"));
    }
  }

  /// Batch norms of every member but those that failed.
  void measure() {
    std::vector<bool> members;
    for (size_t k = 0; k < model_.k(); ++k) {
      members.push_back(active_.before(k) && !state_.ends[k].reason.ends_with("not finite"));
    }
    TrainOptions in_order = options_;
    in_order.shuffle = Shuffle::None;
    const EpochPlan plan(data_, trainingOrders(model_, data_, in_order, 0), options_.batch_size,
                         options_.drop_last);
    recalibrate(model_, plan, options_.seed, members, state_.micro_steps);
  }

  FusedModel& model_;
  const Dataset& data_;
  const Dataset* validation_;
  const TrainOptions& options_;
  const TrainObserver& observer_;
  Diagnostics& diagnostics_;
  ActiveGuard active_;
  RunState state_;
  Stepper stepper_;
};

void checkRun(const FusedModel& model, const Dataset& data, const Dataset* validation,
              const TrainOptions& options) {
  const EpochPlan plan(data, trainingOrders(model, data, options, 0), options.batch_size,
                       options.drop_last);
  for (size_t k = 0; k < model.k(); ++k) {
    if (plan.steps(k) > 0) continue;
    throw Refused(error("there are " + std::to_string(plan.rows(k)) +
                            " rows, fewer than a batch of " +
                            std::to_string(options.batch_size[k]) + ", and --drop-last leaves none",
                        Place{data.path}));
  }
  checkBatches(model, plan, /*training=*/true);
  if (!validation) return;
  checkBatches(model,
               EpochPlan(*validation,
                         options.validation_rows.empty() ? std::vector<at::Tensor>(1)
                                                         : options.validation_rows,
                         options.batch_size, false),
               /*training=*/false);
}

}  // namespace

TrainResult train(FusedModel& model, const Dataset& data, const Dataset* validation,
                  const TrainOptions& options, const TrainObserver& observer,
                  Diagnostics& diagnostics) {
  checkRun(model, data, validation, options);
  if (options.recalibrate || !options.swa.empty()) checkRecalibration(model);
  // The module works on the state that the model holds.
  model.state = optimizerState(model);
  return Trainer(model, data, validation, options, observer, diagnostics).run();
}

}  // namespace chorus
