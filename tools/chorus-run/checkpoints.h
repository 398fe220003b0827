// The folder that a run can be continued from, and the signals that end it early.
#pragma once

#include <string>

#include "chorus/fused_model.h"
#include "tools/chorus-run/options.h"

namespace chorus {

/// True after SIGINT or SIGTERM within a SignalScope.
bool interrupted();

/// While it lives, the first SIGINT or SIGTERM only sets `interrupted`; a second one ends the
/// process at once, with 130 and without temporary files.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
};

/// Everything that decides a run's numbers, but the epochs: those are a total, and may grow.
nlohmann::json decisiveOptions(const RunOptions& options);

/// TRAINED.ckpt, beside what the run writes.
std::string standardFolder(const RunOptions& options);
/// Of --resume or --checkpoint, else the standard one.
std::string checkpointFolder(const RunOptions& options);

/// Holds one file, checkpoint.pt: a fused file whose info has the run's state and its options. It
/// is replaced as a whole, so that a killed process leaves the one before.
class CheckpointFolder {
 public:
  /// Throws Refused (usage) where the folder holds the checkpoint of another run that is not
  /// resumed.
  explicit CheckpointFolder(const RunOptions& options);

  /// What the run reads besides its options: model and data, by content. To be set before `load`
  /// and `write`.
  void setInputs(const nlohmann::json& hashes) { inputs_ = hashes; }
  /// The model to go on with; throws Refused where there is none, or where the options or inputs
  /// are others. More epochs than before are fine.
  FusedModel load() const;
  /// In the default folder a checkpoint that is not urgent is left out while writing them would
  /// take more than a twentieth of the time.
  void write(const FusedModel& model, bool urgent);
  /// After success: the default folder goes, a named one keeps its last checkpoint.
  void finish();
  const std::string& path() const { return folder_; }

 private:
  void removeLeftovers() const;
  void checkInputs(const FusedModel& model) const;
  std::string file() const { return folder_ + "/checkpoint.pt"; }
  nlohmann::json options_;  ///< what must be the same after a resume
  nlohmann::json inputs_;   ///< and here: hashes by what they are of
  std::string folder_;
  bool named_ = false;
  double written_ = 0,
         spent_ = 0;  ///< seconds: when the last one was written, and how long it took
};

}  // namespace chorus
