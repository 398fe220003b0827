// A member's optimizer as PyTorch's own state dict, and the way back.
//
// PyTorch's layout: {"state": {index: {"step", "exp_avg", ...}}, "param_groups": [{"lr", "betas",
// ..., "params": [index, ...]}]}. Indices count the member's parameters in their order. The same
// names and shapes as torch.optim has in every optimizer that both know.
#pragma once

#include <ATen/core/ivalue.h>

#include "chorus/fused_model.h"
#include "lib/scan/saved_value.h"

namespace chorus {

/// What `torch.optim.X(member.parameters()).load_state_dict` takes. Parameter groups of the file
/// are groups there, in their order, behind the parameters that are in none. "param_names" tells
/// which parameter is which. Throws Refused (error) where the model has no optimizer.
c10::IValue torchOptimizerState(const FusedModel& model, size_t k);

/// What member k itself calls the tensor of a slot.
std::string memberSlotName(const FusedModel& model, size_t k, size_t slot);

/// What a file of PyTorch says of member k's optimizer.
struct TorchOptimizer {
  std::string path;
  OptimizerSpec spec;                     ///< K = 1; groups by the prototype's names
  std::map<std::string, SavedPtr> state;  ///< by the prototype's name of the parameter
};

/// Reads a state dict of torch.optim: the file itself, or what it has under "optimizer",
/// "optimizer_state_dict" or "optim". Parameters are found by "param_names", else by their order:
/// that of the member's parameters, or of those that require a gradient. Throws Refused (error,
/// naming `path`) where it is not one of `optimizer`, where counts do not fit, or where a setting
/// is one that chorus does not have.
TorchOptimizer readTorchOptimizer(const std::string& path, const std::string& optimizer,
                                  const FusedModel& model, size_t k);

/// Puts the state in the place of member k's: `model.state` and `model.step`. Requires that
/// `model.optimizer` is set and its state complete. Throws Refused (error) where a size differs,
/// where a parameter has no state, or where parameters have taken different numbers of steps.
void takeTorchState(FusedModel& model, size_t k, const TorchOptimizer& saved);

}  // namespace chorus
