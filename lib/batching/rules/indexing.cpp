#include "lib/batching/dims.h"
#include "lib/batching/families.h"
#include "lib/batching/subscript.h"
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
  if (!dim) return context.decline("computed dim");
  if (rank == 0) {  // a number is a vector of one
    Value* one = context.emit("aten::gather", {withDim(context, 0), 1, withDim(context, 2)});
    return restoreRanks(context, {one});
  }
  const int64_t axis = shiftDim(*dim, rank);
  if (!isStacked(context, 2)) return dimShift()(context);
  Value* x = context.stacked(0);
  Value* index = indexLike(context, x, 2, axis);
  return stackedResults({context.emit("aten::gather", {x, axis, index})});
}

/// gather, scatter, scatter_add, scatter_reduce: all tensors have one rank; stacked, they still
/// have. A number is a vector of one.
RuleResult alongDim(RuleContext& context) {
  const auto dim = context.constantInt(1);
  if (!dim) return context.decline("computed dim");
  std::vector<Value*> inputs = context.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!context.isTensor(i)) continue;
    if (std::max<int64_t>(context.rank(i), 1) != std::max<int64_t>(context.rank(0), 1))
      return context.decline("tensors of different ranks");
    inputs[i] = withDim(context, i);
  }
  inputs[1] = context.constantOf(shiftDim(*dim, context.rank(0)));
  return restoreRanks(context, context.emitSame(inputs));
}

/// index_add(x, dim, index, source, alpha), index_copy, index_reduce: with one index for all only
/// the dim moves; each member its own: a scatter along dim.
RuleResult indexedUpdate(RuleContext& context) {
  const auto dim = context.constantInt(1);
  if (!dim) return context.decline("computed dim");
  if (std::max<int64_t>(context.rank(3), 1) != std::max<int64_t>(context.rank(0), 1))
    return context.decline("tensors of different ranks");
  const bool number = context.rank(0) == 0 || context.rank(3) == 0;  // a vector of one
  const int64_t axis = shiftDim(*dim, context.rank(0));
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = withDim(context, 0);
  inputs[1] = context.constantOf(axis);
  inputs[3] = withDim(context, 3);
  if (!isStacked(context, 2) && !number) return stackedResults(context.emitSame(inputs));
  Value* index = number ? withDim(context, 2) : indexLike(context, inputs[3], 2, axis);
  if (context.has("reduce")) {
    const torch::jit::NamedValue include("include_self",
                                         context.operand(context.indexOf("include_self")).value);
    Value* reduce = context.operand(context.indexOf("reduce")).value;
    return restoreRanks(
        context, {context.emit("aten::scatter_reduce",
                               {inputs[0], inputs[1], index, inputs[3], reduce}, {include})});
  }
  if (!context.has("alpha"))
    return restoreRanks(context,
                        {context.emit("aten::scatter", {inputs[0], inputs[1], index, inputs[3]})});
  Value* source = context.emit("aten::mul", {inputs[3], context.operand(4).value});
  return restoreRanks(context,
                      {context.emit("aten::scatter_add", {inputs[0], inputs[1], index, source})});
}

/// The stacked table of argument 0 as one, and the indices of argument 1 in it: member k's move on
/// by k V.  [K,V,D] -> [(K V),D]
struct OneTable {
  Value* rows = nullptr;
  Value* indices = nullptr;
};

OneTable oneTable(RuleContext& context) {
  Value* weight = context.stacked(0);
  Value* indices = context.operand(1).value;
  Value* rows_each = context.emit("aten::size", {weight, 1});
  Value* moved = movedByMember(context, indices, context.rank(1), rows_each);
  if (fault("embedding_without_offset")) moved = context.emit("aten::expand_as", {indices, moved});
  return {context.emit("aten::flatten", {weight, 0, 1}), moved};
}

/// embedding(weight [V,D], indices, padding_idx, scale_grad_by_freq, sparse)
RuleResult embedding(RuleContext& context) {
  const auto padding = context.constantInt(2);
  const auto by_frequency = context.constant(3);
  if (!padding || !by_frequency) return context.decline("computed arguments");
  if (!isStacked(context, 0)) {
    if (by_frequency->toBool()) return context.decline("a shared table, and scale_grad_by_freq");
    std::vector<Value*> inputs = context.inputs();
    inputs[4] = context.constantOf(false);  // sparse gradients do not add up with others
    return stackedResults(context.emitSame(inputs));
  }
  const OneTable table = oneTable(context);
  Value* rows =
      context.emit("aten::embedding", {table.rows, table.indices, -1, context.operand(3).value});
  if (*padding < 0) return stackedResults({rows});
  // The row of the padding index is read but gets no gradient.
  Value* is_padding = context.emit("aten::eq", {context.operand(1).value, *padding});
  Value* padded = context.emit("aten::unsqueeze", {is_padding, -1});
  return stackedResults(
      {context.emit("aten::where", {padded, context.emit("aten::detach", {rows}), rows})});
}

/// embedding_renorm(weight, indices, max_norm, norm_type): the rows that are read are scaled down.
RuleResult embeddingRenorm(RuleContext& context) {
  const OneTable table = oneTable(context);
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = table.rows;
  inputs[1] = context.emit("aten::flatten", {table.indices});
  Value* rows = context.emitSame(inputs)[0];
  return stackedResults({context.emit("aten::view_as", {rows, context.stacked(0)})});
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

Value* moveDims(RuleContext& context, Value* x, const std::vector<int64_t>& from,
                const std::vector<int64_t>& to) {
  if (from.empty() || from == to) return x;
  return context.emit("aten::movedim", {x, from, to});
}

/// x[i, j] with indices [B...]. As in NumPy, the dims B stand where the tensors stood if these are
/// adjacent, else in front.
RuleResult index(RuleContext& context) {
  const auto subscript = subscriptOf(context, 1);
  if (!subscript) return context.decline("indices of unknown dtype");
  if (subscript->stacked_mask) return context.decline("each member has its own mask");
  const int64_t rank = subscript->rank;
  const auto lead = static_cast<int64_t>(subscript->places.front());
  const Operand x = context.operand(0);
  std::vector<Value*> indices = raisedIndices(context, *subscript);
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

/// masked_select(x, mask), one mask for all: [K,A,B] at [A,B] -> [K,P]
RuleResult maskedSelect(RuleContext& context) {
  if (isStacked(context, 1)) return context.decline("each member has its own mask");
  const int64_t rank = std::max<int64_t>(largestRank(context, {0, 1}), 1);
  Value* x = context.stackedAtRank(0, rank);
  Value* both =
      context.emit("aten::broadcast_tensors", {context.tensorList({x, context.operand(1).value})});
  const auto broadcast =
      context.graph().insertNode(context.graph().createListUnpack(both, 2))->outputs().vec();
  Value* mask = context.emit("aten::select", {broadcast[1], 0, 0});
  return stackedResults({subscripted(context, broadcast[0], {context.constantOf(IValue()), mask})});
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
      rowsOf("dim-shift", narrow, {"narrow", "narrow_copy"}),
      rowsOf("gather", indexSelect, {"index_select"}),
      rowsOf("gather", alongDim, {"gather", "scatter", "scatter_add", "scatter_reduce"}),
      rowsOf("gather", indexedUpdate, {"index_add", "index_copy", "index_reduce"}),
      rowsOf("gather", embedding, {"embedding"}),
      rowsOf("gather", embeddingRenorm, {"embedding_renorm"}),
      rowsOf("gather", index, {"index"}),
      rowsOf("gather", maskedSelect, {"masked_select"}),
      rowsOf("broadcasting", maskedFill, {"masked_fill"}),
      rowsOf("broadcasting", where, {"where"}),
      rowsOf("elementwise", oneHot, {"one_hot"}),
  });
}

}  // namespace chorus
