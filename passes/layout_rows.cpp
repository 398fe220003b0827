#include "passes/layout_rows.h"

#include "lib/support/layout_ops.h"
#include "lib/support/marker_ops.h"
#include "lib/support/value_types.h"

namespace chorus {
namespace {

using torch::jit::Graph;
using torch::jit::NamedValue;
using torch::jit::Node;
using torch::jit::Value;

struct Rewriter {
  Graph& graph;
  Node* node;
  Value* x;  ///< [K,N,C,...]
  Value* k;

  Value* emit(const char* op, const std::vector<NamedValue>& arguments) {
    return graph.insert(c10::Symbol::fromQualString(op), arguments, {}, node->sourceRange());
  }
  Value* list(const std::vector<Value*>& ints) {
    return graph.insertNode(graph.createList(c10::IntType::get(), ints))->output();
  }
  Value* number(int64_t value) { return graph.insertConstant(value); }

  Node* cloneWith(const std::vector<std::pair<size_t, Value*>>& operands) {
    Node* clone = graph.createClone(node, [](Value* value) { return value; });
    for (const auto& [i, operand] : operands) clone->replaceInput(i, operand);
    for (Value* output : clone->outputs()) output->setType(typeOfRank(output, std::nullopt));
    return graph.insertNode(clone);
  }

  /// Every unmerge of output `i` is `k_first`.
  void replace(size_t i, Value* k_first) {
    for (const torch::jit::Use& use : std::vector(node->output(i)->uses())) {
      k_first->copyMetadata(use.user->output());
      use.user->output()->replaceAllUsesWith(k_first);
      use.user->destroy();
    }
  }

  void perChannel() {
    // [K,N,C,...] -> [(K N),C,...] and back
    Node* made = cloneWith({{0, emit("aten::flatten", {x, 0, 1})}});
    for (size_t i = 0; i < made->outputs().size(); ++i)
      replace(i, emit("aten::unflatten", {made->output(i), 0, list({k, number(-1)})}));
    node->destroy();
  }

  /// [(K C)] -> [K,1,C] -> [K,N,C] -> [(K N C)]
  Value* parameter(Value* merged, Value* n) {
    if (!isTensor(merged)) return merged;
    Value* apart = emit("aten::unflatten", {merged, 0, list({k, number(1), number(-1)})});
    Value* repeated = emit("aten::expand", {apart, list({number(-1), n, number(-1)})});
    return emit("aten::flatten", {repeated});
  }

  void groupNorm() {
    Value* n = emit("aten::size", {x, 1});
    // No rows are one group of no channels: the op refuses to have none.
    Value* none = emit("aten::Int", {emit("aten::eq", {n, 0})});
    Value* groups = emit("aten::mul", {node->input(1), emit("aten::add", {n, none})});
    // [K,N,C,...] -> [1,(K N C),...]
    Value* row = emit("aten::unsqueeze", {emit("aten::flatten", {x, 0, 2}), 0});
    Node* made = cloneWith({{0, row},
                            {1, groups},
                            {2, parameter(node->input(2), n)},
                            {3, parameter(node->input(3), n)}});
    Value* y = emit("aten::squeeze", {made->output(), 0});
    Value* channels = emit("aten::size", {x, 2});
    replace(0, emit("aten::unflatten", {y, 0, list({k, n, channels})}));
    node->destroy();
  }
};

/// The unmerge of the first used output, if all uses of all outputs are unmerges; else nullptr.
Node* onlyUnmerged(Node* node) {
  Node* found = nullptr;
  for (Value* output : node->outputs()) {
    for (const torch::jit::Use& use : output->uses()) {
      if (use.user->kind() != unmergeSymbol()) return nullptr;
      found = found ? found : use.user;
    }
  }
  return found;
}

}  // namespace

bool workOnRows(Graph& graph, Node* node) {
  const bool group_norm = node->kind() == c10::aten::group_norm;
  if (!group_norm && !worksPerChannel(node->kind().toQualString())) return false;
  Node* merge = node->input(0)->node();
  if (group_norm && merge->kind() == c10::aten::contiguous) merge = merge->input(0)->node();
  if (merge->kind() != mergeSymbol()) return false;
  Node* unmerge = onlyUnmerged(node);
  if (!unmerge) return false;
  Rewriter rewriter{graph, node, merge->input(0), unmerge->input(1)};
  if (group_norm)
    rewriter.groupNorm();
  else
    rewriter.perChannel();
  return true;
}

}  // namespace chorus
