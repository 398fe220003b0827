// A member's optimizer as PyTorch's own state dict.
#pragma once

#include <ATen/core/ivalue.h>

#include "chorus/fused_model.h"

namespace chorus {

/// What `torch.optim.X(member.parameters()).load_state_dict` takes: {"state": {index: {"step",
/// "exp_avg",
/// ...}}, "param_groups": [{"lr", "betas", ..., "params": [index, ...]}]}. Indices count the
/// member's parameters in their order; parameter groups of the file are groups there, in their
/// order, behind the parameters that are in none. Throws Refused (error) where the model has no
/// optimizer.
c10::IValue torchOptimizerState(const FusedModel& model, size_t k);

}  // namespace chorus
