// How ops that draw are made of two draws that a counter gives: uniform and normal numbers.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace chorus {

/// Emits at the insert point what `node` computes, its draws made by
///
///     chorus::uniform(Tensor like, int node, bool stacked) -> Tensor   in [0, 1)
///     chorus::gaussian(Tensor like, int node, bool stacked) -> Tensor  mean 0, deviation 1
///
/// which draw as random node `index`. Returns the value that replaces the node's output, or nullptr
/// where the op is not made of these. In-place ops (bernoulli_, ...) give the new value and write
/// nothing. Values have the type of the node's output, in a floating dtype where they are numbers
/// in between.
torch::jit::Value* drawnValue(torch::jit::Node* node, int64_t index);

/// True where `drawnValue` knows the op, in place or not.
bool isDistribution(const torch::jit::Node* node);

}  // namespace chorus
