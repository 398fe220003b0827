// The command line of chorus-run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "tools/common/command_line.h"
#include "tools/common/training_options.h"

namespace chorus {

/// Of a group of a manifest: the names of all members, and the numbers of those that it has.
struct ChosenMembers {
  std::vector<std::string> names;
  std::vector<size_t> numbers;
};

struct RunOptions {
  std::vector<std::string> models;
  TrainingOptions training;

  // What to do.
  bool evaluate = false;
  std::string predict;  ///< OUT.npz
  std::string output;   ///< trained file
  bool unfused = false;
  bool keep_optimizer = false;
  std::string optimizer_state;  ///< files of torch.optim state dicts, one or K

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
  std::string schedule, patience, min_delta, monitor, restore, ema, swa, amp, metrics;
  bool recalibrate = false;
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

  std::string arguments;                ///< as given, quoted for a shell
  std::optional<ChosenMembers> chosen;  ///< set by runManifest
  std::string resume_name;              ///< what --resume has to say; empty: the folder's own name

  /// How many members the options speak of, where `k` take part.
  size_t allMembers(size_t k) const { return chosen ? chosen->names.size() : k; }
  /// Of one value per member of all, those that take part.
  template <typename T>
  std::vector<T> ofChosen(const std::vector<T>& all) const {
    if (!chosen) return all;
    std::vector<T> mine;
    for (const size_t number : chosen->numbers) mine.push_back(all.at(number));
    return mine;
  }
  /// [K,...] of all members to those that take part.
  at::Tensor rowsOfChosen(const at::Tensor& all) const;

  bool trains() const { return !evaluate && predict.empty(); }
  const std::string& model() const { return models.front(); }
};

/// nullopt: --help or the like has answered. Throws Refused for contradictions (usage), and for
/// options of the contract that are not there yet (unsupported).
std::optional<RunOptions> parseRunOptions(const std::vector<std::string>& arguments);

}  // namespace chorus
