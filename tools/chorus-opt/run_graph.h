// --run: executing a graph of text IR on random inputs.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <string>
#include <vector>

namespace chorus {

/// One input per graph input, from its type: dtype (default float) and sizes; an unknown size is 2.
/// Numbers are small and depend on the seed and the input's place only. `stacked[i]` puts K in
/// front. Throws Refused where a type says too little.
std::vector<c10::IValue> randomInputs(const torch::jit::Graph& graph, uint64_t seed,
                                      const std::vector<bool>& stacked = {}, int64_t k = 2);

/// Runs the graph and prints its outputs, e.g. "output 0: f32[2,3] = 0.25 -1.5 ...", five
/// significant digits.
std::string runGraph(const std::shared_ptr<torch::jit::Graph>& graph,
                     const std::vector<c10::IValue>& inputs, uint64_t seed);

}  // namespace chorus
