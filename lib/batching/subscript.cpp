#include "lib/batching/subscript.h"

#include "lib/batching/families.h"

namespace chorus {

std::optional<Subscript> subscriptOf(RuleContext& context, size_t i) {
  Subscript subscript;
  subscript.elements = context.elements(i);
  for (size_t j = 0; j < subscript.elements.size(); ++j) {
    const Operand& element = subscript.elements[j];
    if (element.value->type()->kind() == c10::TypeKind::NoneType) continue;
    const auto dtype = context.elementDtype(i, j);
    const auto rank = context.memberRank(element);
    if (!dtype || !rank) return std::nullopt;
    const bool mask = *dtype == at::kBool || *dtype == at::kByte;
    if (mask && *rank == 0) return std::nullopt;
    subscript.masks += mask;
    subscript.stacked_mask = subscript.stacked_mask || (mask && element.stacked);
    subscript.dims += mask ? *rank : 1;
    subscript.rank = std::max(subscript.rank, mask ? 1 : *rank);
    subscript.stacked = subscript.stacked || element.stacked;
    if (!subscript.places.empty() && subscript.places.back() + 1 != j) subscript.adjacent = false;
    subscript.places.push_back(j);
  }
  if (subscript.places.empty()) return std::nullopt;
  return subscript;
}

std::vector<Value*> raisedIndices(RuleContext& context, const Subscript& subscript) {
  std::vector<Value*> indices;
  for (const Operand& element : subscript.elements) {
    indices.push_back(
        element.stacked
            ? context.raiseRank(element.value, *context.memberRank(element), subscript.rank)
            : element.value);
  }
  return indices;
}

Value* subscripted(RuleContext& context, Value* x, const std::vector<Value*>& indices) {
  Graph& graph = context.graph();
  Node* list = graph.insertNode(graph.createList(c10::OptionalType::ofTensor(), indices));
  return context.emit("aten::index", {x, list->output()});
}

Value* memberNumbers(RuleContext& context, Value* like, int64_t rank) {
  Value* device = context.emit("prim::device", {like});
  Value* numbers = context.emit("aten::arange", {context.memberCount()},
                                {torch::jit::NamedValue("device", device)});
  return context.raiseRank(numbers, 0, rank);
}

Value* movedByMember(RuleContext& context, Value* index, int64_t rank, Value* rows) {
  Value* below = context.emit("aten::lt", {index, 0});
  Value* outside =
      context.emit("aten::logical_or", {below, context.emit("aten::ge", {index, rows})});
  // Below zero also behind the rows of all other members.
  Value* size = context.emit("aten::mul", {rows, context.memberCount()});
  Value* nowhere = context.emit("aten::neg", {size});
  Value* first = context.emit("aten::mul", {memberNumbers(context, index, rank), rows});
  return context.emit("aten::add",
                      {context.emit("aten::masked_fill", {index, outside, nowhere}), first});
}

Value* indexLike(RuleContext& context, Value* x, size_t i, int64_t axis) {
  const int64_t rank = context.rank(0);
  std::vector<int64_t> aligned(static_cast<size_t>(rank), 1);
  aligned[static_cast<size_t>(axis) - 1] = -1;
  Value* index = context.emit("aten::unflatten", {withDim(context, i), 1, aligned});
  std::vector<Value*> sizes;
  for (int64_t d = 0; d <= rank; ++d) {
    sizes.push_back(d == axis ? context.constantOf(-1) : context.emit("aten::size", {x, d}));
  }
  return context.emit("aten::expand", {index, context.intList(sizes)});
}

}  // namespace chorus
