// What a run reads, by content: a resumed run has to go on with the same.
#pragma once

#include <nlohmann/json.hpp>

#include "chorus/trainer.h"
#include "tools/chorus-run/data_files.h"
#include "tools/chorus-run/options.h"

namespace chorus {

/// Hashes of the model as training begins (numbers, graph, loss, optimizer) and of everything else
/// that is read from files, as 16 hexadecimal digits by what they are of, in words. One pass over
/// the bytes of model and data.
nlohmann::json inputHashes(const RunOptions& options, const FusedModel& model, const RunData& data,
                           const TrainOptions& train);

}  // namespace chorus
