#include "lib/batching/dims.h"
#include "lib/batching/families.h"
#include "lib/support/fault.h"

namespace chorus {
namespace {

using c10::IValue;

bool isStacked(const RuleContext& context, size_t i) {
  return context.isTensor(i) && context.operand(i).stacked;
}

/// index_select(x, dim, index), narrow, ... with one index for all: only the dim moves.
/// Each member its own index [K,L] -> [K,1,..,L,..,1], expanded to x but for dim, then gather.
RuleResult indexSelect(RuleContext& context) {
  const int64_t rank = context.rank(0);
  const auto dim = context.constantInt(1);
  if (!dim || rank == 0) return context.decline(dim ? "a tensor without dims" : "computed dim");
  const int64_t axis = shiftDim(*dim, rank);
  if (!isStacked(context, 2)) return dimShift()(context);
  Value* x = context.stacked(0);
  std::vector<int64_t> aligned(static_cast<size_t>(rank), 1);
  aligned[static_cast<size_t>(axis) - 1] = -1;
  Value* index = context.emit("aten::unflatten", {withDim(context, 2), 1, aligned});
  std::vector<Value*> sizes;
  for (int64_t i = 0; i <= rank; ++i) {
    sizes.push_back(i == axis ? context.constantOf(-1) : context.emit("aten::size", {x, i}));
  }
  index = context.emit("aten::expand", {index, context.intList(sizes)});
  return stackedResults({context.emit("aten::gather", {x, axis, index})});
}

/// gather, scatter, scatter_add, scatter_reduce: all tensors have one rank; stacked, they still
/// have.
RuleResult alongDim(RuleContext& context) {
  const auto dim = context.constantInt(1);
  if (!dim) return context.decline("computed dim");
  std::vector<Value*> inputs = context.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!context.isTensor(i)) continue;
    if (context.rank(i) == 0 || context.rank(i) != context.rank(0))
      return context.decline("tensors of different ranks");
    inputs[i] = context.stacked(i);
  }
  inputs[1] = context.constantOf(shiftDim(*dim, context.rank(0)));
  return stackedResults(context.emitSame(inputs));
}

/// index_add(x, dim, index, source, alpha), index_copy: one index for all.
RuleResult indexedUpdate(RuleContext& context) {
  const auto dim = context.constantInt(1);
  if (!dim) return context.decline("computed dim");
  if (isStacked(context, 2)) return context.decline("each member has its own index");
  if (context.rank(0) == 0 || context.rank(3) != context.rank(0))
    return context.decline("tensors of different ranks");
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = context.stacked(0);
  inputs[1] = context.constantOf(shiftDim(*dim, context.rank(0)));
  inputs[3] = context.stacked(3);
  return stackedResults(context.emitSame(inputs));
}

/// int64 [K,1,...,1] with `rank` dims behind K: 0, 1, ..., K-1 on the device of `like`.
Value* memberNumbers(RuleContext& context, Value* like, int64_t rank) {
  Value* device = context.emit("prim::device", {like});
  Value* numbers = context.emit("aten::arange", {context.memberCount()},
                                {torch::jit::NamedValue("device", device)});
  return context.raiseRank(numbers, 0, rank);
}

/// embedding(weight [V,D], indices). Stacked weight [K,V,D] -> [(K V),D]; member k's indices move
/// on by k*V.
RuleResult embedding(RuleContext& context) {
  const auto padding = context.constantInt(2);
  const auto by_frequency = context.constant(3);
  if (!padding || !by_frequency || by_frequency->toBool())
    return context.decline("scale_grad_by_freq");
  if (!isStacked(context, 0)) return stackedResults(context.emitSame(context.inputs()));
  Value* weight = context.operand(0).value;
  const int64_t rank = context.rank(1);
  Value* indices = context.operand(1).value;
  Value* rows_each = context.emit("aten::size", {weight, 1});
  Value* first = context.emit("aten::mul", {memberNumbers(context, indices, rank), rows_each});
  Value* table = context.emit("aten::flatten", {weight, 0, 1});
  Value* moved = context.emit("aten::add", {indices, first});
  if (fault("embedding_without_offset")) moved = context.emit("aten::expand_as", {indices, moved});
  Value* rows = context.emit("aten::embedding", {table, moved});
  if (*padding < 0) return stackedResults({rows});
  // The row of the padding index is read but gets no gradient.
  Value* padded =
      context.emit("aten::unsqueeze", {context.emit("aten::eq", {indices, *padding}), -1});
  return stackedResults(
      {context.emit("aten::where", {padded, context.emit("aten::detach", {rows}), rows})});
}

RuleResult maskedFill(RuleContext& context) {
  const bool own_values = isStacked(context, 2);
  auto inputs = alignedInputs(context, {0, 1}, {});
  if (!own_values) return stackedResults(context.emitSame(*inputs));
  const int64_t rank = largestRank(context, {0, 1});
  Value* value = context.emit("aten::type_as", {context.stackedAtRank(2, rank), inputs->at(0)});
  return stackedResults({context.emit("aten::where", {inputs->at(1), value, inputs->at(0)})});
}

RuleResult where(RuleContext& context) {
  if (!context.has("other")) return context.decline("sizes that depend on values");
  const auto inputs = alignedInputs(context, {0, 1, 2}, {1, 2});
  if (!inputs) return context.decline("an operand's dtype is not known");
  return stackedResults(context.emitSame(*inputs));
}

/// The tensors of x[..., i, j, ...] and where they stand.
struct Subscript {
  std::vector<Operand> elements;  // None where a whole dim is taken
  std::vector<size_t> places;     // of the tensors
  int64_t rank = 0;               // of the tensors broadcast together
  bool stacked = false;           // one of them is
  bool adjacent = true;
};

/// Nullopt with a reason declined in `context`.
std::optional<Subscript> subscriptOf(RuleContext& context) {
  Subscript subscript;
  subscript.elements = context.elements(1);
  bool mask = false;
  for (size_t i = 0; i < subscript.elements.size(); ++i) {
    const Operand& element = subscript.elements[i];
    if (element.value->type()->kind() == c10::TypeKind::NoneType) continue;
    const auto dtype = context.elementDtype(1, i);
    const auto rank = context.memberRank(element);
    if (!dtype || !rank) return std::nullopt;
    mask = mask || *dtype == at::kBool || *dtype == at::kByte;
    subscript.rank = std::max(subscript.rank, *rank);
    subscript.stacked = subscript.stacked || element.stacked;
    if (!subscript.places.empty() && subscript.places.back() + 1 != i) subscript.adjacent = false;
    subscript.places.push_back(i);
  }
  // A mask of its own in each member gives each its own sizes; one for all counts as one index of
  // rank 1.
  if (subscript.places.empty() || (mask && (subscript.stacked || subscript.places.size() > 1)))
    return std::nullopt;
  if (mask) subscript.rank = 1;
  return subscript;
}

Value* subscripted(RuleContext& context, Value* x, const std::vector<Value*>& indices) {
  Graph& graph = context.graph();
  Node* list = graph.insertNode(graph.createList(c10::OptionalType::ofTensor(), indices));
  return context.emit("aten::index", {x, list->output()});
}

Value* moveDims(RuleContext& context, Value* x, const std::vector<int64_t>& from,
                const std::vector<int64_t>& to) {
  if (from.empty() || from == to) return x;
  return context.emit("aten::movedim", {x, from, to});
}

/// x[i, j] with indices [B...]. As in NumPy, the dims B stand where the tensors stood if these are
/// adjacent, else in front.
RuleResult index(RuleContext& context) {
  const auto subscript = subscriptOf(context);
  if (!subscript) return context.decline("a mask, or indices of unknown dtype");
  const int64_t rank = subscript->rank;
  const auto lead = static_cast<int64_t>(subscript->places.front());
  const Operand x = context.operand(0);
  std::vector<Value*> indices;
  for (const Operand& element : subscript->elements) {
    const bool raise = element.stacked;
    indices.push_back(raise ? context.raiseRank(element.value, *context.memberRank(element), rank)
                            : element.value);
  }
  if (!subscript->stacked) {
    indices.insert(indices.begin(), context.constantOf(IValue()));
    Value* y = subscripted(context, x.value, indices);
    // apart: [B...,K,...] -> [K,B...,...]
    return stackedResults({subscript->adjacent ? y : moveDims(context, y, {rank}, {0})});
  }
  if (!x.stacked) {
    Value* y = subscripted(context, x.value, indices);
    // adjacent: [before...,K,B...,...] -> [K,before...,B...,...]
    return stackedResults({subscript->adjacent ? moveDims(context, y, {lead}, {0}) : y});
  }
  indices.insert(indices.begin(), memberNumbers(context, x.value, rank));
  Value* y = subscripted(context, x.value, indices);
  if (!subscript->adjacent || lead == 0) return stackedResults({y});
  // adjacent, but no longer with K's own index: [K,B...,before...,...] -> [K,before...,B...,...]
  return stackedResults({moveDims(context, y, dimRange(1, rank), dimRange(lead + 1, lead + rank))});
}

RuleResult narrow(RuleContext& context) {
  if (context.isTensor(2)) return context.decline("a start that is a tensor");
  return dimShift()(context);
}

RuleResult oneHot(RuleContext& context) {
  const auto classes = context.constantInt(1);
  if (!classes || *classes < 0) return context.decline("as many classes as the values say");
  return elementwise(context);
}

}  // namespace

RuleRows indexing() {
  return concatenated({
      rowsOf("dim-shift", narrow, {"narrow"}),
      rowsOf("gather", indexSelect, {"index_select"}),
      rowsOf("gather", alongDim, {"gather", "scatter", "scatter_add", "scatter_reduce"}),
      rowsOf("gather", indexedUpdate, {"index_add", "index_copy"}),
      rowsOf("gather", embedding, {"embedding"}),
      rowsOf("gather", index, {"index"}),
      rowsOf("broadcasting", maskedFill, {"masked_fill"}),
      rowsOf("broadcasting", where, {"where"}),
      rowsOf("elementwise", oneHot, {"one_hot"}),
  });
}

}  // namespace chorus
