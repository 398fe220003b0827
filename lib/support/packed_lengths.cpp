#include "lib/support/packed_lengths.h"

#include <torch/csrc/jit/ir/constants.h>

#include <functional>
#include <unordered_set>
#include <vector>

namespace chorus {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

/// Numbers of the inputs that `value` is made of.
std::vector<size_t> inputsBehind(const Graph& graph, const Value* value) {
  std::vector<size_t> found;
  std::vector<const Value*> work = {value};
  std::unordered_set<const Value*> seen;
  while (!work.empty()) {
    const Value* at = work.back();
    work.pop_back();
    if (!seen.insert(at).second) continue;
    const Node* node = at->node();
    if (node == graph.block()->param_node()) {
      found.push_back(at->offset());
      continue;
    }
    // What a block takes, its node takes.
    if (node->kind() == c10::prim::Param) node = node->owningBlock()->owningNode();
    work.insert(work.end(), node->inputs().begin(), node->inputs().end());
    for (const Block* block : node->blocks())
      work.insert(work.end(), block->outputs().begin(), block->outputs().end());
  }
  return found;
}

}  // namespace

std::map<size_t, std::optional<int64_t>> inputsThatAreLengths(const Graph& graph) {
  static const auto pack = c10::Symbol::fromQualString("aten::_pack_padded_sequence");
  std::map<size_t, std::optional<int64_t>> found;
  const std::function<void(const Block&)> visit = [&](const Block& block) {
    for (const Node* node : block.nodes()) {
      for (const Block* inner : node->blocks()) visit(*inner);
      if (node->kind() != pack) continue;
      std::optional<int64_t> steps;
      const auto batch_first = torch::jit::toIValue(node->input(2));
      const auto* type = node->input(0)->type()->castRaw<c10::TensorType>();
      if (batch_first && type && type->dim()) steps = type->sizes()[batch_first->toBool() ? 1 : 0];
      for (const size_t i : inputsBehind(graph, node->input(1))) found[i] = steps;
    }
  };
  visit(*graph.block());
  return found;
}

}  // namespace chorus
