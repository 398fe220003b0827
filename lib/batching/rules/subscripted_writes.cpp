#include "lib/batching/dims.h"
#include "lib/batching/families.h"
#include "lib/batching/fold.h"
#include "lib/batching/subscript.h"

namespace chorus {
namespace {

/// One mask [A...] at the dims from `lead` of x, and values that are the same for all its places:
/// [before...,1,after...], or fewer dims. Then their place needs no counting.
struct MaskedWrite {
  Operand mask;
  int64_t lead = 0;
  int64_t mask_rank = 0;
  int64_t after = 0;   ///< dims of x behind the mask's
  int64_t values = 0;  ///< rank of the values
};

std::optional<MaskedWrite> sameForAllPlaces(RuleContext& context, const Subscript& subscript) {
  if (subscript.masks != 1 || subscript.places.size() != 1) return std::nullopt;
  MaskedWrite write;
  write.lead = static_cast<int64_t>(subscript.places.front());
  write.mask = subscript.elements[subscript.places.front()];
  write.mask_rank = *context.memberRank(write.mask);
  write.after = context.rank(0) - write.lead - write.mask_rank;
  write.values = context.rank(2);
  if (write.values <= write.after) return write;
  if (write.values > write.lead + 1 + write.after) return std::nullopt;
  const auto places = context.sizes(2)[static_cast<size_t>(write.values - write.after - 1)];
  return places == 1 ? std::optional(write) : std::nullopt;
}

/// x[..., mask, ...] = values: where(mask, values, x), or x + values there.
RuleResult writeByMask(RuleContext& context, const MaskedWrite& write, bool accumulate) {
  Value* x = context.stacked(0);
  Value* where = context.stackedOf(write.mask);
  // [K,A] -> [K,1,...,A,1,...]
  where = context.raiseRank(where, write.mask_rank, write.lead + write.mask_rank);
  for (int64_t d = 0; d < write.after; ++d) where = context.emit("aten::unsqueeze", {where, -1});
  Value* values = context.emit("aten::type_as", {context.stacked(2), x});
  int64_t rank = write.values;
  if (rank > write.after) {  // [K,before...,1,after...] -> as many dims of 1 as the mask has
    for (int64_t d = 1; d < write.mask_rank; ++d, ++rank)
      values = context.emit("aten::unsqueeze", {values, -1 - write.after});
  }
  values = context.raiseRank(values, rank, context.rank(0));
  if (accumulate) values = context.emit("aten::add", {x, values});
  return stackedResults({context.emit("aten::where", {where, values, x})});
}

/// index_put(x, {i, none, j}, values, accumulate): K is one more index, 0 ... K-1, in front.
RuleResult indexPut(RuleContext& context) {
  const auto accumulate = context.constant(3);
  if (!accumulate) return context.decline("computed accumulate");
  const auto subscript = subscriptOf(context, 1);
  if (!subscript) return context.decline("indices of unknown dtype");
  if (const auto write = sameForAllPlaces(context, *subscript))
    return writeByMask(context, *write, accumulate->toBool());
  if (subscript->stacked_mask)
    return context.decline("each member has its own mask, and its places their own values");
  const int64_t rank = subscript->rank;
  const auto lead = static_cast<int64_t>(subscript->places.front());
  Value* x = context.stacked(0);
  std::vector<Value*> indices = raisedIndices(context, *subscript);
  indices.insert(indices.begin(), memberNumbers(context, x, rank));
  // Rank of x[...] in the member; there the dims of the indices stand at `lead` if they are
  // adjacent. With K's own index they always stand in front, behind K.
  const int64_t result = context.rank(0) - subscript->dims + rank;
  if (context.rank(2) > result) return context.decline("values of higher rank");
  Value* values = context.stackedAtRank(2, result);
  if (subscript->adjacent && lead > 0 && rank > 0) {
    // [K,before...,B...,after...] -> [K,B...,before...,after...]
    values =
        context.emit("aten::movedim", {values, dimRange(lead + 1, lead + rank), dimRange(1, rank)});
  }
  Graph& graph = context.graph();
  Node* list = graph.insertNode(graph.createList(c10::OptionalType::ofTensor(), indices));
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = x;
  inputs[1] = list->output();
  inputs[2] = values;
  return stackedResults(context.emitSame(inputs));
}

/// select_scatter, slice_scatter, diagonal_scatter: x and src stacked, the dims shifted.
BatchingRule scatterInto(std::vector<std::string> axes) {
  return [axes](RuleContext& context) -> RuleResult {
    std::vector<Value*> inputs = context.inputs();
    for (const size_t i : {0, 1}) inputs[i] = context.stacked(i);
    for (const std::string& axis : axes) {
      const auto dim = context.constantInt(context.indexOf(axis));
      if (!dim) return context.decline("computed " + axis);
      inputs[context.indexOf(axis)] = context.constantOf(shiftDim(*dim, context.rank(0)));
    }
    return stackedResults(context.emitSame(inputs));
  };
}

/// index_fill(x, dim, index, value) with one index for all, or x.scatter with each its own.
RuleResult indexFill(RuleContext& context) {
  const auto dim = context.constantInt(1);
  if (!dim || context.rank(0) == 0) return context.decline("computed dim, or no dims");
  const int64_t axis = shiftDim(*dim, context.rank(0));
  Value* x = context.stacked(0);
  const bool own_value = context.isTensor(3) && context.operand(3).stacked;
  if (!isStacked(context, 2) && !own_value) {
    std::vector<Value*> inputs = context.inputs();
    inputs[0] = x;
    inputs[1] = context.constantOf(axis);
    return stackedResults(context.emitSame(inputs));
  }
  // A place that is named twice counts once in the value's gradient: by a mask.
  Value* mask = context.emit("aten::zeros_like", {x}, {{"dtype", static_cast<int64_t>(at::kBool)}});
  mask = context.emit("aten::scatter", {mask, axis, indexLike(context, x, 2, axis), true});
  if (!context.isTensor(3)) {
    return stackedResults({context.emit("aten::masked_fill", {x, mask, context.operand(3).value})});
  }
  Value* value = context.emit("aten::type_as", {context.stackedAtRank(3, context.rank(0)), x});
  return stackedResults({context.emit("aten::where", {mask, value, x})});
}

/// Negative places count from the end, other than in gather, which refuses those that are none.
Value* fromTheFront(RuleContext& context, Value* index, Value* row) {
  Value* behind = context.emit("aten::add", {index, context.emit("aten::size", {row, 1})});
  return context.emit("aten::where", {context.emit("aten::lt", {index, 0}), behind, index});
}

/// take(x, index) of the member as one row, put(x, index, source, accumulate) into it.
RuleResult take(RuleContext& context) {
  Value* row = context.emit("aten::flatten", {withDim(context, 0), 1, -1});
  Value* index = context.emit("aten::flatten", {withDim(context, 1), 1, -1});
  index = fromTheFront(context, index, row);
  Value* found = context.emit("aten::gather", {row, 1, index});
  return stackedResults({context.emit("aten::view_as", {found, context.stacked(1)})});
}

RuleResult put(RuleContext& context) {
  const auto accumulate = context.constant(3);
  if (!accumulate) return context.decline("computed accumulate");
  Value* x = context.stacked(0);
  Value* row = context.emit("aten::flatten", {withDim(context, 0), 1, -1});
  Value* index = context.emit("aten::flatten", {withDim(context, 1), 1, -1});
  Value* source = context.emit("aten::flatten", {withDim(context, 2), 1, -1});
  index = fromTheFront(context, index, row);
  Value* written = context.emit(accumulate->toBool() ? "aten::scatter_add" : "aten::scatter",
                                {row, 1, index, source});
  return stackedResults({context.emit("aten::view_as", {written, x})});
}

/// take_along_dim(x, indices, dim?): tensors that broadcast but for dim; without dim, as rows.
RuleResult takeAlongDim(RuleContext& context) {
  const auto dim = context.constant(2);
  if (!dim) return context.decline("computed dim");
  if (dim->isNone()) {
    Value* row = context.emit("aten::flatten", {withDim(context, 0), 1, -1});
    Value* index = context.emit("aten::flatten", {withDim(context, 1), 1, -1});
    return stackedResults({context.emit("aten::gather", {row, 1, index})});
  }
  const int64_t rank = context.rank(0);
  if (context.rank(1) != rank || rank == 0) return context.decline("tensors of different ranks");
  std::vector<Value*> inputs = {context.stacked(0), context.stacked(1),
                                context.constantOf(shiftDim(dim->toInt(), rank))};
  return stackedResults(context.emitSame(inputs));
}

/// masked_scatter(x, mask, source): the place of an element among the true ones is its place in the
/// source.  [K,A,B] -> [K,P]
RuleResult maskedScatter(RuleContext& context) {
  const int64_t rank = largestRank(context, {0, 1});
  if (context.rank(0) < rank) return context.decline("a mask of higher rank");
  Value* x = context.stacked(0);
  Value* mask = context.emit("aten::expand_as", {context.stackedAtRank(1, rank), x});
  Value* row = rank == 0 ? context.emit("aten::unsqueeze", {mask, 1})
                         : context.emit("aten::flatten", {mask, 1, -1});
  Value* source = context.emit("aten::flatten", {withDim(context, 2), 1, -1});
  Value* count = context.emit("aten::cumsum", {row, 1});
  Value* place = context.emit("aten::clamp_min", {context.emit("aten::sub", {count, 1}), 0});
  Value* found = context.emit("aten::gather", {source, 1, place});
  found = context.emit("aten::view_as", {found, x});
  return stackedResults({context.emit("aten::where", {mask, found, x})});
}

}  // namespace

RuleRows subscripted_writes() {
  return concatenated({
      rowsOf("gather", indexPut, {"index_put", "_unsafe_index_put"}),
      rowsOf("gather", indexFill, {"index_fill"}),
      rowsOf("gather", take, {"take"}),
      rowsOf("gather", maskedScatter, {"masked_scatter"}),
      rowsOf("gather", put, {"put"}),
      rowsOf("gather", takeAlongDim, {"take_along_dim"}),
      rowsOf("dim-shift", scatterInto({"dim"}), {"select_scatter", "slice_scatter"}),
      rowsOf("dim-shift", scatterInto({"dim1", "dim2"}), {"diagonal_scatter"}),
  });
}

}  // namespace chorus
