// What chorus-run tells of its results: a line per epoch, the table, JSON.
#pragma once

#include <fstream>

#include "chorus/trainer.h"
#include "tools/chorus-run/data_files.h"
#include "tools/chorus-run/options.h"

namespace chorus {

/// A line per epoch on standard output, and a JSON object per epoch in the --log file, which is
/// made at once.
class EpochReporter {
 public:
  EpochReporter(const RunOptions& options, const FusedModel& model, const RunData& data);
  void report(const EpochResult& result, int64_t last_epoch);

 private:
  bool prints_, explained_ = false;
  const std::vector<std::string>& names_;
  std::string log_path_;
  std::ofstream log_;
};

/// The table per member, or with --json one object, on standard output.

void reportTraining(const RunOptions& options, const FusedModel& model, const TrainResult& result);
/// Which arrays the file of predictions holds, and their sizes.
using NamedArrays = std::vector<std::pair<std::string, at::Tensor>>;
void reportPredictions(const RunOptions& options, const FusedModel& model,
                       const NamedArrays& arrays);
void reportScores(const RunOptions& options, const FusedModel& model, const Dataset& data,
                  const Scores& scores);

}  // namespace chorus
