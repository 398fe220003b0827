// Batch norms measured anew: what torch.optim.swa_utils.update_bn does.
#pragma once

#include "chorus/fused_model.h"
#include "runtime/epoch_plan.h"

namespace chorus {

/// The train graph has batch norms with running statistics.
bool hasBatchNorms(const FusedModel& model);

/// Throws Refused (unsupported) naming the place of a batch norm that `recalibrate` cannot do: one
/// inside a branch or loop, one that is used twice.
void checkRecalibration(const FusedModel& model);

/// One pass over the plan's batches in train mode, without gradients: running means and variances
/// of `members` become the plain averages of those of the batches, and `num_batches_tracked` their
/// number. Other buffers move as in any pass in train mode. `micro_steps`: of the first batch, what
/// masks are drawn for.
void recalibrate(FusedModel& model, const EpochPlan& plan, uint64_t seed,
                 const std::vector<bool>& members, const std::vector<int64_t>& micro_steps);

}  // namespace chorus
