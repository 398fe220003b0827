// The command line of chorus-run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/common/command_line.h"
#include "tools/common/training_options.h"

namespace chorus {

struct RunOptions {
  std::vector<std::string> models;
  TrainingOptions training;

  // What to do.
  bool evaluate = false;
  std::string predict;  ///< OUT.npz
  std::string output;   ///< trained file
  bool unfused = false;
  bool keep_optimizer = false;

  // Data.
  std::string data, validation;
  std::optional<double> validation_fraction;
  std::string keys, inputs = "shared", targets;
  std::vector<std::string> input_specs;
  std::string mode = "follow";
  int64_t folds = 0;  ///< 0: none
  bool bootstrap = false;
  std::string subset;         ///< JSON file
  std::string sample_weight;  ///< key of the data or a file

  // The run. "One value or K" as text; empty: not given.
  std::string epochs, batch_size, member_seeds, clip_norm, clip_value;
  std::string schedule, patience, min_delta, monitor, restore, ema, amp, metrics;
  std::string on_nan = "continue";
  std::string checkpoint, resume;  ///< folders
  int64_t checkpoint_every = 0;
  std::string shuffle = "shared", device = "cpu";
  bool drop_last = false;
  uint64_t seed = 0;
  int64_t accumulate = 1;
  int threads = 0;  ///< 0: LibTorch's default

  // Output.
  std::string log;
  bool quiet = false, json = false;

  std::string arguments;  ///< as given, quoted for a shell

  bool trains() const { return !evaluate && predict.empty(); }
  const std::string& model() const { return models.front(); }
};

/// nullopt: --help or the like has answered. Throws Refused for contradictions (usage), and for
/// options of the contract that are not there yet (unsupported).
std::optional<RunOptions> parseRunOptions(const std::vector<std::string>& arguments);

}  // namespace chorus
