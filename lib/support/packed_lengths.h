// Where the lengths of packed sequences come from (`nn.utils.rnn.pack_padded_sequence`).
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <optional>

namespace chorus {

/// An input that decides lengths.
struct PackedLengths {
  std::optional<int64_t> steps;  ///< of the padded sequence, where known
  bool as_they_are = true;       ///< its values are the lengths, in some order
};

/// Inputs of the graph that decide lengths.
///
/// A step has as many rows as there are sequences that long. Members share the lengths, so that a
/// step has the same rows for all: these inputs are never stacked.
std::map<size_t, PackedLengths> inputsThatAreLengths(const torch::jit::Graph& graph);

}  // namespace chorus
