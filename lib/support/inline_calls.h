// Calls of functions and methods, replaced by what they call.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace chorus {

/// Inlines all calls of `graph`, however deep. LibTorch's own pass inlines one level where the
/// process has switched its optimiser off (Executor does). Calls of what has no code stay.
void inlineCalls(torch::jit::Graph& graph);

}  // namespace chorus
