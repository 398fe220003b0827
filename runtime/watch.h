// The watched value of early stopping and of reduce_on_plateau, and the state of the best epoch.
#pragma once

#include "runtime/run_state.h"

namespace chorus {

/// A larger value is better: of every metric but losses and errors.
bool isMaximised(const std::string& monitor);

/// The K values of "val_loss", "train_accuracy", ... in this epoch. Throws Refused (usage) where
/// the run has no such number.
std::vector<double> monitored(const EpochResult& result, const std::string& monitor);

/// Takes in the epoch's values for the members that took part: best state (in `model.extra`,
/// "best.*"), patience, plateau schedules. Members whose patience is over are no longer alive.
void watch(FusedModel& model, const TrainOptions& options, RunState& state,
           const EpochResult& result, const OptimizerSpec& values);

/// Members that have a best state take it back, bit for bit; the copies go.
void restoreBest(FusedModel& model, RunState& state);

}  // namespace chorus
