// --data and --val: read, given their roles, checked.
#pragma once

#include <optional>

#include "chorus/dataset.h"
#include "tools/chorus-run/options.h"

namespace chorus {

struct RunData {
  Dataset train;  ///< the one there is, for --evaluate and --predict
  std::optional<Dataset> validation;
  std::vector<at::Tensor> rows, validation_rows;  ///< see TrainOptions
};

RunData readData(const RunOptions& options, const FusedModel& model, Diagnostics& diagnostics);

}  // namespace chorus
