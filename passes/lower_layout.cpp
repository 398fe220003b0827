#include "chorus/pass.h"
#include "lib/support/marker_ops.h"

namespace chorus {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

Value* insert(Graph& graph, const Node* from, const char* op,
              std::vector<torch::jit::NamedValue> arguments) {
  return graph.insert(c10::Symbol::fromQualString(op), arguments, {}, from->sourceRange());
}

// [K,N,C,...] -> [N,K,C,...] -> [N,(K C),...]
Value* lowerMerge(Graph& graph, Node* node) {
  Value* n_first = insert(graph, node, "aten::transpose", {node->input(0), 0, 1});
  return insert(graph, node, "aten::flatten", {n_first, 1, 2});
}

// [N,(K C),...] -> [N,K,C,...] -> [K,N,C,...]
Value* lowerUnmerge(Graph& graph, Node* node) {
  Value* rest = graph.insertConstant(-1);
  Value* sizes =
      graph.insertNode(graph.createList(c10::IntType::get(), {node->input(1), rest}))->output();
  Value* n_first = insert(graph, node, "aten::unflatten", {node->input(0), 1, sizes});
  return insert(graph, node, "aten::transpose", {n_first, 0, 1});
}

void lower(Graph& graph, Block* block) {
  for (auto it = block->nodes().begin(); it != block->nodes().end();) {
    Node* node = *it++;
    for (Block* inner : node->blocks()) lower(graph, inner);
    const bool merge = node->kind() == mergeSymbol();
    if (!merge && node->kind() != unmergeSymbol()) continue;
    torch::jit::WithInsertPoint here(node);
    Value* lowered = merge ? lowerMerge(graph, node) : lowerUnmerge(graph, node);
    lowered->copyMetadata(node->output());
    node->output()->replaceAllUsesWith(lowered);
    node->destroy();
  }
}

}  // namespace

Pass lower_layout() {
  return {
      .name = "lower-layout",
      .summary = "replaces the markers chorus::merge and chorus::unmerge by aten ops",
      .description =
          "    chorus::merge(x)       ==>  x.transpose(0, 1).flatten(1, 2)\n"
          "                                [K,N,C,...] -> [N,K,C,...] -> [N,(K C),...]\n"
          "    chorus::unmerge(x, k)  ==>  x.unflatten(1, [k, -1]).transpose(0, 1)\n"
          "                                [N,(K C),...] -> [N,K,C,...] -> [K,N,C,...]\n"
          "\n"
          "K stays a value of the graph. No marker is left, in blocks neither.",
      .optional = false,
      .run = [](std::shared_ptr<Graph>& graph) { lower(*graph, graph->block()); },
  };
}

}  // namespace chorus
