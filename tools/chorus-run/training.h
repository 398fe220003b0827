// Training as chorus-run does it: options in, epochs out, fused or one member after another.
#pragma once

#include "chorus/trainer.h"
#include "tools/chorus-run/checkpoints.h"
#include "tools/chorus-run/data_files.h"
#include "tools/chorus-run/options.h"

namespace chorus {

/// "One value or K" options, from the command line or the table. Throws Refused.
TrainOptions trainOptions(const RunOptions& options, size_t k, const RunData& data);

/// K of them.
std::vector<int64_t> batchSizes(const RunOptions& options, size_t k);
/// --metric, or empty.
std::vector<std::string> metricNames(const RunOptions& options);

/// Trains all members at once, or with --unfused each alone, with a progress bar, a line per epoch,
/// and --log. `checkpoints` writes the run's state.
TrainResult runTraining(const RunOptions& options, FusedModel& model, const RunData& data,
                        const TrainOptions& train_options, CheckpointFolder& checkpoints,
                        Diagnostics& diagnostics);

}  // namespace chorus
