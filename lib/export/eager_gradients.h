// LibTorch differentiates scripts by formulas of its own from a module's second call on, unless the
// process switches its optimiser off. Some of these formulas are not those of autograd.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace chorus {

/// Puts the nodes whose formula differs from autograd's behind branches, where LibTorch leaves the
/// gradient to autograd. `member` tells whether there are complex numbers: a formula conjugates
/// nothing, so that with them every node is put behind one.
void keepEagerGradients(torch::jit::Graph& fused, const torch::jit::Graph& member);

}  // namespace chorus
