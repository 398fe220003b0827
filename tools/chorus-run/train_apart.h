// --unfused: one member after another, the honest baseline.
#pragma once

#include "tools/chorus-run/training.h"

namespace chorus {

/// Trains each member alone, as a fused model of K = 1, and puts it back into its place. A
/// checkpoint holds the members that are done, and where the one that is under way stands.
TrainResult trainApart(const RunOptions& options, FusedModel& model, const RunData& data,
                       const TrainOptions& train_options, CheckpointFolder& checkpoints,
                       Diagnostics& diagnostics);

}  // namespace chorus
