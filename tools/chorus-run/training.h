// Training as chorus-run does it: options in, epochs out, fused or one member after another.
#pragma once

#include "chorus/trainer.h"
#include "tools/chorus-run/data_files.h"
#include "tools/chorus-run/options.h"

namespace chorus {

/// "One value or K" options, from the command line or the table. Throws Refused.
TrainOptions trainOptions(const RunOptions& options, size_t k);

/// The one batch size of a run.
int64_t batchSize(const RunOptions& options, size_t k);

/// Trains all members at once, or with --unfused each alone, with a progress bar, a line per epoch,
/// and --log.
std::vector<EpochResult> runTraining(const RunOptions& options, FusedModel& model,
                                     const RunData& data, Diagnostics& diagnostics);

}  // namespace chorus
