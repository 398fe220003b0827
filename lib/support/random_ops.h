// Which nodes of a canonical graph count as random: their index among these is what their draws are
// a function of.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace chorus {

/// What is left of a dropout of which every member has its own p
/// (lib/batching/varying_random.cpp).
constexpr const char* kKeptOp = "chorus::kept";

/// aten::dropout, feature_dropout, alpha_dropout, feature_alpha_dropout.
bool isDropout(const torch::jit::Node* node);

/// True unless the node draws nothing, whatever its inputs are. An op of the dropout family counts
/// with p = 0 too.
bool drawsFromCounters(const torch::jit::Node* node);

}  // namespace chorus
