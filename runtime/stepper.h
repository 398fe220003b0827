// One training step of all members: gradients, checks, accumulation, clipping, update, averages.
#pragma once

#include <memory>

#include "runtime/executor.h"
#include "runtime/run_state.h"

namespace chorus {

class Stepper {
 public:
  /// Works on the tensors of `model`, whose optimizer state must be complete; averages are kept in
  /// `model.extra` ("ema.NAME").
  Stepper(FusedModel& model, const TrainOptions& options, RunState& state);

  /// Who trains in the epoch that begins; rates of schedules per epoch.
  void beginEpoch(const std::vector<bool>& active);
  /// Members that are not finite are marked in the state as the options say; `diagnostics` hears.
  void step(const EpochPlan& plan, int64_t step, LossMean& losses, Metrics& metrics,
            Diagnostics& diagnostics);

  /// Of all members.
  Executor& whole() { return executorOf({0, model_.k(), 0}); }
  Executor& executorOf(const SubGroup& group);
  const OptimizerSpec& values() const { return now_; }

 private:
  void groupStep(const EpochPlan& plan, const SubGroup& group, int64_t step, LossMean& losses,
                 Metrics& metrics, Diagnostics& diagnostics);
  /// Batches of member k that the update around this step is made of.
  int64_t cycleLength(const EpochPlan& plan, size_t k, int64_t step) const;
  StepResult compute(const EpochPlan& plan, const SubGroup& group, int64_t step,
                     const Batch& batch);
  /// Marks members whose numbers are not finite; returns who may go on in this micro-step.
  std::vector<bool> judge(const SubGroup& group, const StepResult& result,
                          Diagnostics& diagnostics);
  void report(size_t k, const char* what, Diagnostics& diagnostics);
  /// The gradients to move by where members end a cycle; else empty.
  std::vector<at::Tensor> cycleGradients(const EpochPlan& plan, const SubGroup& group, int64_t step,
                                         const std::vector<bool>& good, StepResult& result,
                                         std::vector<bool>& moves);
  void update(const SubGroup& group, std::vector<at::Tensor> gradients,
              const std::vector<bool>& moves);
  void average(const SubGroup& group, const std::vector<bool>& moves);
  void setActive(const SubGroup& group, const std::vector<bool>& flags);
  void refreshRates(size_t k);
  void pushRates(Executor& executor, const SubGroup& group);

  FusedModel& model_;
  const TrainOptions& options_;
  RunState& state_;
  OptimizerSpec now_;  ///< hyperparameters after schedules
  int64_t version_ = 0;
  bool kernel_, sums_rows_;
  std::vector<size_t> slots_;
  std::vector<bool> active_;  ///< in this epoch, and not marked since
  std::vector<bool> warned_;  ///< of members that go on
  struct Part {
    std::unique_ptr<Executor> executor;
    int64_t version = -1;
  };
  std::map<std::pair<size_t, size_t>, Part> parts_;
};

}  // namespace chorus
