// Losses: one file of lib/losses/ each, defining one function named after it that returns its LossDefinition.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace torch::jit {
struct Graph;
}

namespace chorus {

/// `--loss NAME` and its `--loss-arg NAME=VALUE`s, as text; values are checked by the loss. An argument of K values has K
/// entries, otherwise one. `weight=w.npy` arrives in `tensors`.
struct LossSpec {
  std::string name;
  std::map<std::string, std::vector<std::string>> arguments;
  std::map<std::string, at::Tensor> tensors;
};

/// What a loss is built for. Ranks and dtypes are the member's.
struct LossRequest {
  LossSpec spec;
  size_t k = 1;
  std::vector<size_t> output_ranks;                  ///< of the model's tensors, in order
  std::vector<at::ScalarType> output_dtypes;
  std::vector<std::vector<std::optional<int64_t>>> output_sizes;
};

/// The loss as TorchScript. `body` is the indented body of
///
///     def chorus_losses(self, outputs: List[Tensor], target: Tensor) -> Tensor:   # outputs [K,N,...] -> [K]
///
/// It may read `self.chorus.loss_ARG` for each entry "loss_ARG" of `constants` ([K,...] tensors) and of
/// `shared_constants` (without K). An entry of `LossSpec::tensors` called ARG is stored there under "loss_ARG". `target` may be shared or stacked: the body decides by its rank alone, and expands a shared one.
/// K is `outputs[0].size(0)`, never a literal. Each member divides by its own count.
struct LossCode {
  std::string body;
  std::map<std::string, at::Tensor> constants;
  std::map<std::string, at::Tensor> shared_constants;
  /// Members' graphs that `body` calls as methods, by name: inputs are one member's outputs and target, then the shared
  /// constants `graph_tensors`, in order. They are batched when the module is built, and return a list.
  std::map<std::string, std::shared_ptr<torch::jit::Graph>> graphs;
  std::vector<std::string> graph_tensors;
};

/// Dtype and sizes of a member's target; nullopt where the size is the batch size.
struct TargetShape {
  at::ScalarType dtype = at::kFloat;
  std::vector<std::optional<int64_t>> sizes;
  std::optional<int64_t> bound;      ///< integers: values are below it
};

/// How a target is validated before the first step (runtime).
struct TargetRule {
  bool class_indices = false;        ///< integer targets are class numbers
  std::optional<int64_t> classes;    ///< then they lie in [0, classes) or equal ignore_index
  std::vector<int64_t> ignored;      ///< ignore_index, one or K
  size_t index_rank = 0;             ///< member rank of an integer target
  size_t dense_rank = 0;             ///< member rank of a floating target; 0: none is accepted
  std::optional<TargetShape> exact;  ///< the target is this, whatever the above says
  size_t output = 0;                 ///< of the model, that the target belongs to
  double threshold = 0;              ///< of an output that says yes or no: a greater one says yes
  /// Of that output, which a floating target has too, and class numbers but for the classes; empty: not known.
  std::vector<std::optional<int64_t>> sizes = {};
};

struct LossDefinition {
  std::string name;
  std::string summary;
  std::vector<std::string> arguments;  ///< accepted --loss-arg names
  std::function<LossCode(const LossRequest&)> build;   ///< throws Refused on a bad argument
  std::function<TargetRule(const LossRequest&)> target;
  bool takes_target = true;            ///< false: `loss(x...)`, and the body sees an empty target
  /// Arrays of the data behind the target, e.g. "input_lengths": then the body has a `more: List[Tensor]` too.
  std::vector<std::string> more_targets = {};
  /// The loss is the mean (or sum) of rows' losses that depend on one row each, so that rows may have weights.
  bool by_rows = true;
};

const std::vector<LossDefinition>& allLosses();
/// Throws Refused (usage) with the nearest name. "output:1" finds "output".
const LossDefinition& findLoss(const std::string& name);
/// Throws Refused (usage) for an argument the loss does not take, with the nearest one; (error) for a count that is
/// neither one nor K. `build` calls it.
void checkLossArguments(const LossDefinition& definition, const LossRequest& request);

}  // namespace chorus
