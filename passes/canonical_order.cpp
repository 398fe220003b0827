// Order of nodes by structure alone: depth first from the outputs, operands in order; of a
// commutative op the operand with the smaller structural hash first. Two members with the same
// structure get the same order, whatever order, names or export they came with, so "the i-th random
// node" means the same in both.
#include "chorus/pass.h"
#include "lib/support/hash.h"

namespace chorus {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

using Hashes = std::unordered_map<const Value*, uint64_t>;

bool commutes(const Node& node) {
  static const std::set<std::string> names = {
      "aten::add",        "aten::mul", "aten::maximum", "aten::minimum", "aten::logical_and",
      "aten::logical_or", "aten::eq",  "aten::ne",      "aten::__and__", "aten::__or__"};
  return names.count(node.kind().toQualString()) > 0;
}

void hashBlock(const Block& block, Hashes& hashes);

/// Kind, constants and wiring; inputs of the graph count by their type only, so that slot order
/// does not matter. A branch or loop counts with what its blocks give.
uint64_t hashNode(const Node& node, Hashes& hashes) {
  uint64_t hash = hashText(node.kind().toQualString());
  if (node.kind() == c10::prim::Constant) {
    const auto value = torch::jit::toIValue(node.output());
    return mixHash(hash, value && !value->isTensor() ? hashText(c10::str(*value)) : 0);
  }
  uint64_t operands = 0;
  const bool any_order = commutes(node);
  for (size_t i = 0; i < node.inputs().size(); ++i) {
    const uint64_t operand = hashes.at(node.inputs()[i]);
    operands = any_order && i < 2 ? operands + operand : mixHash(operands, operand);
  }
  hash = mixHash(hash, operands);
  for (const Block* block : node.blocks()) {
    for (const Value* input : block->inputs()) hashes[input] = mixHash(hash, input->offset());
    hashBlock(*block, hashes);
    for (const Value* output : block->outputs()) hash = mixHash(hash, hashes.at(output));
  }
  return hash;
}

void hashBlock(const Block& block, Hashes& hashes) {
  for (const Node* node : block.nodes()) {
    const uint64_t hash = hashNode(*node, hashes);
    for (const Value* output : node->outputs()) hashes[output] = mixHash(hash, output->offset());
  }
}

/// Nodes of `block` that `node` reads, also from inside its own blocks.
void addCaptured(const Node& node, const Block* block, std::vector<Node*>& into) {
  for (const Block* inner : node.blocks()) {
    const auto take = [&](const Value* value) {
      if (value->node()->owningBlock() == block) into.push_back(const_cast<Node*>(value->node()));
    };
    for (const Node* part : inner->nodes()) {
      for (const Value* input : part->inputs()) take(input);
      addCaptured(*part, block, into);
    }
    for (const Value* output : inner->outputs()) take(output);
  }
}

std::vector<Node*> operandsInOrder(const Node& node, const Hashes& hashes) {
  std::vector<const Value*> values(node.inputs().begin(), node.inputs().end());
  if (commutes(node) && values.size() >= 2 && hashes.at(values[1]) < hashes.at(values[0])) {
    std::swap(values[0], values[1]);
  }
  std::vector<Node*> nodes;
  for (const Value* value : values) {
    if (value->node()->owningBlock() == node.owningBlock())
      nodes.push_back(const_cast<Node*>(value->node()));
  }
  addCaptured(node, node.owningBlock(), nodes);
  return nodes;
}

/// Depth first from the block's results.
std::vector<Node*> orderOf(Block& block, const Hashes& hashes) {
  std::vector<Node*> order;
  std::set<Node*> placed = {block.param_node()};
  struct Visit {
    Node* node;
    std::vector<Node*> operands;
    size_t next = 0;
  };
  // A work list, not recursion: graphs are deep.
  for (const Value* output : block.outputs()) {
    std::vector<Visit> stack;
    const auto enter = [&](Node* node) {
      if (placed.insert(node).second) stack.push_back({node, operandsInOrder(*node, hashes)});
    };
    if (output->node()->owningBlock() == &block) enter(const_cast<Node*>(output->node()));
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next < top.operands.size()) {
        enter(top.operands[top.next++]);
        continue;
      }
      order.push_back(top.node);
      stack.pop_back();
    }
  }
  // Constants first; what no output needs stays behind everything else, in its own order.
  std::stable_partition(order.begin(), order.end(),
                        [](const Node* n) { return n->kind() == c10::prim::Constant; });
  std::vector<Node*> rest;
  for (Node* node : block.nodes()) {
    if (!placed.count(node)) rest.push_back(node);
  }
  order.insert(order.end(), rest.begin(), rest.end());
  return order;
}

void reorderBlock(Block& block, const Hashes& hashes) {
  Node* at = *block.nodes().begin();
  for (Node* node : orderOf(block, hashes)) {
    for (Block* inner : node->blocks()) reorderBlock(*inner, hashes);
    if (node == at) {
      at = at->next();
    } else {
      node->moveBefore(at);
    }
  }
}

void reorder(std::shared_ptr<Graph>& graph) {
  Hashes hashes;
  for (const Value* input : graph->inputs())
    hashes[input] = hashText(c10::typeKindToString(input->type()->kind()));
  hashBlock(*graph->block(), hashes);
  reorderBlock(*graph->block(), hashes);
}

}  // namespace

Pass canonical_order() {
  return {.name = "canonical-order",
          .summary = "order nodes by structure alone",
          .description =
              "Depth first from the outputs, operands in order (of a commutative op: by structural "
              "hash); "
              "constants first. Nothing is removed or renamed.",
          .optional = false,
          .run = reorder};
}

}  // namespace chorus
