// --optimizer-state: members that come from PyTorch with their optimizers.
#pragma once

#include "lib/export/torch_optimizer.h"
#include "tools/chorus-run/options.h"

namespace chorus {

/// One per member, or empty where the option is not given. Throws Refused.
std::vector<TorchOptimizer> readTorchOptimizers(const RunOptions& options, const FusedModel& model);

/// The K optimizers as one. Throws Refused (error) where their flags or their groups differ.
OptimizerSpec specOf(const std::vector<TorchOptimizer>& saved);

}  // namespace chorus
