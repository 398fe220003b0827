// Scoring with executors that exist already.
#pragma once

#include "runtime/stepper.h"

namespace chorus {

/// Throws Refused where batches of these sizes cannot work, before anything runs.
void checkBatches(const FusedModel& model, const EpochPlan& plan, bool training);

/// Loss and metrics in eval mode. `executorOf` gives the executor of a group of members.
Scores scoresOf(const FusedModel& model, const Dataset& data,
                const std::vector<int64_t>& batch_sizes, const std::vector<at::Tensor>& rows,
                const std::vector<std::string>& metrics,
                const std::function<Executor&(const SubGroup&)>& executorOf);

}  // namespace chorus
