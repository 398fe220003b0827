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

/// The dropout is on, whatever its p is: with a p of each member's own it is a kKeptOp.
bool trains(const torch::jit::Node* dropout);

/// True unless the node draws nothing, whatever its inputs are.
bool drawsFromCounters(const torch::jit::Node* node);

}  // namespace chorus
