// Loss and optimizer on the command line, the same for chorus-fuse and chorus-run:
//
//     --loss NAME --loss-arg NAME=VALUE --optimizer NAME --lr 1e-3,3e-4 --betas 0.9,0.999
//     --nesterov --hparams FILE
//
// Options are named like PyTorch's arguments, with '-' for '_'. Hyperparameters called X1 and X2
// are one option `--Xs` of a pair. Every optimizer's hyperparameters are options; one that the
// chosen optimizer does not have is refused.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "chorus/diagnostics.h"
#include "chorus/fused_model.h"
#include "chorus/loss.h"
#include "chorus/optimizer.h"
#include "tools/common/hparams.h"

namespace chorus {

struct TrainingOptions {
  std::string loss;
  std::vector<std::string> loss_arguments;
  std::string target;  ///< "f32[N,3]"; "" where not given
  std::string optimizer;
  std::map<std::string, std::string>
      values;                         ///< by option ("weight-decay", "betas"); "" where not given
  std::map<std::string, bool> flags;  ///< by option ("nesterov")
  std::string hparams;                ///< file
  std::string parameter_groups;       ///< file; see parameter_groups.h
  std::optional<HparamsTable> table;  ///< set by readTable

  /// Some hyperparameter or flag is given, by option or column.
  bool givesHyperparameters() const;
};

/// Adds the options to a tool. `options` must outlive the parse.
void addTrainingOptions(CLI::App& app, TrainingOptions& options);

/// Reads --hparams, if given. `extra_columns` are the tool's own, e.g. "epochs". Call before the
/// two below.
void readTable(TrainingOptions& options, const std::vector<std::string>& extra_columns,
               const std::vector<std::string>& members);

/// nullopt without --loss; then --loss-arg is a usage error. Argument names are checked, and loaded
/// where they are .npy files; the loss checks their values itself.
std::optional<LossSpec> lossSpec(const TrainingOptions& options, size_t k);

/// Throws Refused where --target and the target that the loss of `model` takes differ in rank or
/// kind.
void checkTarget(const TrainingOptions& options, const FusedModel& model);

/// nullopt without --optimizer and without `base`; then hyperparameters are a usage error. With
/// `base` (the optimizer that a file has) the given values override its own. Values are checked
/// like torch.optim does.
std::optional<OptimizerSpec> optimizerSpec(const TrainingOptions& options,
                                           const std::vector<std::string>& members,
                                           const OptimizerSpec* base = nullptr);

/// The hyperparameters, by option, that differ from another spec of the same optimizer: for
/// remarks.
std::vector<std::string> changedHyperparameters(const OptimizerSpec& before,
                                                const OptimizerSpec& after);

}  // namespace chorus
