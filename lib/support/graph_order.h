// All nodes of a graph in the order in which certificates count them.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <vector>

namespace chorus {

/// The nodes of a branch's or loop's blocks come before it; what a block takes (its Param node)
/// comes before the block's nodes, where it takes something.
inline void appendInOrder(torch::jit::Block& block, std::vector<torch::jit::Node*>& into) {
  for (torch::jit::Node* node : block.nodes()) {
    for (torch::jit::Block* part : node->blocks()) {
      if (!part->inputs().empty()) into.push_back(part->param_node());
      appendInOrder(*part, into);
    }
    into.push_back(node);
  }
}

inline std::vector<torch::jit::Node*> nodesInOrder(const torch::jit::Graph& graph) {
  std::vector<torch::jit::Node*> nodes;
  appendInOrder(*const_cast<torch::jit::Graph&>(graph).block(), nodes);  // only looks
  return nodes;
}

}  // namespace chorus
