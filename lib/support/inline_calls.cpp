#include "lib/support/inline_calls.h"

#include <torch/csrc/jit/passes/inliner.h>

namespace chorus {
namespace {

bool hasCalls(torch::jit::Block* block) {
  for (torch::jit::Node* node : block->nodes()) {
    const c10::Symbol kind = node->kind();
    const bool calls = kind == c10::prim::CallFunction || kind == c10::prim::CallMethod;
    if (calls && torch::jit::tryToGraphFunction(node)) return true;
    for (torch::jit::Block* inner : node->blocks()) {
      if (hasCalls(inner)) return true;
    }
  }
  return false;
}

}  // namespace

void inlineCalls(torch::jit::Graph& graph) {
  while (hasCalls(graph.block())) torch::jit::Inline(graph);
}

}  // namespace chorus
