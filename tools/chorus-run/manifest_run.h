// A manifest as MODEL: the groups of `chorus-fuse --group`, one after another.
#pragma once

#include <functional>

#include "tools/chorus-run/options.h"

namespace chorus {

/// Calls `run` for each group with the options cut to its members: the group's file as the model,
/// values per member chosen by their numbers, and OUT.0.pt, ... in place of OUT.pt. Writes OUT.json
/// last. Returns the first exit code that is not 0 (the groups after it are not run).
int runManifest(const RunOptions& options, const std::function<int(RunOptions&)>& run);

}  // namespace chorus
