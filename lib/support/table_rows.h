// Which inputs are row numbers of tables (`nn.Embedding`, `nn.EmbeddingBag`).
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <map>

namespace chorus {

/// Inputs of the graph all of whose values are row numbers of a table, whatever the data are, and
/// the rows of the smallest of these tables: values lie in 0 ... rows - 1.
std::map<size_t, int64_t> inputsThatAreRows(const torch::jit::Graph& graph);

}  // namespace chorus
