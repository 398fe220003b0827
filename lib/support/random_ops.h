// Which nodes of a canonical graph count as random: their index among these is what their draws are
// a function of.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace chorus {

/// True unless the node draws nothing, whatever its inputs are. An op of the dropout family counts
/// with p = 0 too.
bool drawsFromCounters(const torch::jit::Node* node);

}  // namespace chorus
