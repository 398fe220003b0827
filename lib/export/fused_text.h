// The TorchScript that goes around the graphs of a fused file. People read it in the saved archive.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "chorus/fused_model.h"

namespace chorus {

/// Everything the text depends on, worked out beforehand.
struct FusedTextRequest {
  std::vector<InputSpec> inputs;
  OutputTree output;
  std::set<size_t> lengths;  ///< inputs that decide how sequences are packed: one for all members
  size_t n_outputs = 0;
  bool has_shared_graphs = true;       ///< false: no tensor is stacked, inputs are always expanded
  std::vector<std::string> trainable;  ///< expressions, in order of trainableSlots
  std::vector<std::vector<std::string>> trainable_aliases;
  /// Of each update: the buffer and its aliases.
  std::vector<std::vector<std::string>> train_updates, eval_updates;
  std::vector<std::vector<size_t>> groups;  ///< indices into `trainable`, one dtype each
  std::vector<std::string> group_suffixes;  ///< "" for the first group, then e.g. "_f64"
  std::vector<std::string> hyper_suffixes;  ///< of each group's hyperparameters
  bool has_loss = false;
  bool takes_target = true;
  std::string loss_body;
  size_t more_targets = 0;  ///< arrays behind the target: arguments y1, y2, ...
  /// The rows' losses may be weighed; `loss_constants` are the loss's tensors [K,...].
  bool by_rows = false, sums_rows = false;
  std::vector<std::string> loss_constants;
  const OptimizerSpec* optimizer = nullptr;
  /// Adds chorus_step(x..., y, scale, weight) -> (losses, outputs, gradients of the sum of scale *
  /// losses, new values of buffers, which have not moved), which the runtime calls.
  bool for_runtime = false;
};

/// Names of ours at the top of the module: what a member may collide with.
const std::vector<std::string>& fusedNames();

/// forward, loss, chorus_gradients, chorus_update, train_step and their helpers, with their usual
/// names.
std::string fusedText(const FusedTextRequest& request);

/// Of these, chorus_update with its rule and helpers.
std::string updateText(const FusedTextRequest& request);

/// `text` with our names in `taken` prefixed by `chorus_` (twice where needed). Reads of the
/// member's own tensors must use getattr for these names. Returns the new names too.
std::string renameTaken(const std::string& text, const std::map<std::string, std::string>& renamed);

/// First components of the names of the member's parameters and buffers.
std::vector<std::string> topLevelNames(const Member& member);

/// Which of our names are used by the member's top-level names `taken`, and what they become.
std::map<std::string, std::string> renamedNames(const std::vector<std::string>& taken);

}  // namespace chorus
