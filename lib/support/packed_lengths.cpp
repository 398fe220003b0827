#include "lib/support/packed_lengths.h"

#include <torch/csrc/jit/ir/constants.h>

#include <functional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

namespace chorus {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

/// It only moves the elements of a tensor.
bool keepsValues(const Node* node) {
  static const std::set<std::string> names = {
      "aten::sort",         "aten::to",         "aten::cpu",  "aten::detach",
      "aten::index_select", "aten::contiguous", "aten::clone"};
  return names.count(node->kind().toQualString()) || node->kind() == c10::prim::Constant;
}

struct Origins {
  std::vector<size_t> inputs;  ///< their numbers
  bool as_they_are = true;
};

/// What `value` is made of.
Origins originsOf(const Graph& graph, const Value* value) {
  Origins found;
  std::vector<const Value*> work = {value};
  std::unordered_set<const Value*> seen;
  while (!work.empty()) {
    const Value* at = work.back();
    work.pop_back();
    if (!seen.insert(at).second) continue;
    const Node* node = at->node();
    if (node == graph.block()->param_node()) {
      found.inputs.push_back(at->offset());
      continue;
    }
    found.as_they_are = found.as_they_are && keepsValues(node);
    // What a block takes, its node takes.
    if (node->kind() == c10::prim::Param) node = node->owningBlock()->owningNode();
    work.insert(work.end(), node->inputs().begin(), node->inputs().end());
    for (const Block* block : node->blocks())
      work.insert(work.end(), block->outputs().begin(), block->outputs().end());
  }
  return found;
}

}  // namespace

std::map<size_t, PackedLengths> inputsThatAreLengths(const Graph& graph) {
  static const auto pack = c10::Symbol::fromQualString("aten::_pack_padded_sequence");
  std::map<size_t, PackedLengths> found;
  const std::function<void(const Block&)> visit = [&](const Block& block) {
    for (const Node* node : block.nodes()) {
      for (const Block* inner : node->blocks()) visit(*inner);
      if (node->kind() != pack) continue;
      std::optional<int64_t> steps;
      const auto batch_first = torch::jit::toIValue(node->input(2));
      const auto* type = node->input(0)->type()->castRaw<c10::TensorType>();
      if (batch_first && type && type->dim()) steps = type->sizes()[batch_first->toBool() ? 1 : 0];
      const Origins origins = originsOf(graph, node->input(1));
      for (const size_t i : origins.inputs) found[i] = {steps, origins.as_they_are};
    }
  };
  visit(*graph.block());
  return found;
}

}  // namespace chorus
