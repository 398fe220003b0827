// The stacked optimizer as one pass over the parameters, for the optimizers that people use most.
// The others run chorus_update of the module.
#pragma once

#include "chorus/fused_model.h"

namespace chorus {

/// sgd, adam and adamw on CPU tensors of f32 or f64, without amsgrad.
bool hasUpdateKernel(const FusedModel& model);

/// Moves parameters, state and step of the members `begin`, ... for which `moves` is true.
/// `gradients` are [n,...] of the n = moves.size() members, in the order of trainableSlots; a
/// parameter whose gradient is [0] is left alone. `values` are the hyperparameters as they are now.
/// Requires hasUpdateKernel, and that `model.state` holds every tensor of the optimizer's state.
void updateByKernel(FusedModel& model, const OptimizerSpec& values, size_t begin,
                    const std::vector<bool>& moves, const std::vector<at::Tensor>& gradients);

/// Per member: no gradient has a NaN or an infinity.
std::vector<bool> finiteMembers(const std::vector<at::Tensor>& gradients, size_t n);

}  // namespace chorus
