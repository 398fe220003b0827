// `--example FILE`: shapes of the inputs, and the batch that --verify runs, from a data file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "chorus/dataset.h"
#include "chorus/fused_model.h"

namespace chorus {

struct FuseOptions;

struct ExampleData {
  std::string path;
  std::vector<std::string> keys;  ///< the inputs, then the target, then what else the loss takes
  size_t inputs = 0;              ///< of the keys
  size_t more = 0;                ///< keys behind the target
  std::map<std::string, at::Tensor> arrays;
};

/// Throws Refused: no such file or array, an array without rows.
ExampleData readExample(const FuseOptions& options);

/// One per input: dtype, and sizes with N in front.
std::vector<InputSpec> exampleSpecs(const ExampleData& example);

/// The first rows, checked as chorus-run checks data.
Batch exampleBatch(const ExampleData& example, const FusedModel& model);

}  // namespace chorus
