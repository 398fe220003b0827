// What the command line of chorus-fuse says.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/chorus-fuse/example.h"
#include "tools/common/command_line.h"
#include "tools/common/training_options.h"

namespace chorus {

struct FuseOptions {
  std::vector<std::string> members;
  std::string output;
  std::vector<std::string> inputs;          ///< --input
  std::string example, keys;                ///< --example FILE, and the names of its arrays
  std::optional<ExampleData> example_data;  ///< what the file holds; set by main
  int64_t replicate = 0;                    ///< K; 0: not given
  std::string init = "keep";
  std::string seeds;  ///< --seeds
  TrainingOptions training;
  bool plan = false;
  int64_t batch_size = 0;  ///< that the plan is for; 0: the example's
  std::string report;
  bool group = false, partial = false, mixed_momentum = false;
  std::vector<std::string> share;  ///< patterns of names
  std::string check;               ///< a fused file to be proved against the members
  std::vector<std::string> disabled;
  std::string mode = "follow";
  int64_t verify_steps = 1;
  bool no_verify = false;
  double rtol = 1e-4, atol = 1e-6;
};

/// Adds the options to `line`; `options` must outlive the parse.
void addFuseOptions(CommandLine& line, FuseOptions& options);

/// Refuses (usage) what CLI11 cannot see: combinations, unknown pass names.
void checkFuseOptions(const FuseOptions& options);

}  // namespace chorus
