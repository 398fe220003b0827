#include "lib/batching/dims.h"
#include "lib/batching/families.h"

namespace chorus {
namespace {

/// The elements of list argument 0, all stacked; nullopt where their ranks differ or are not known.
std::optional<std::vector<Value*>> stackedElements(RuleContext& context, int64_t& rank) {
  if (!context.knowsElements(0)) return std::nullopt;
  const std::vector<Operand> elements = context.elements(0);
  std::vector<Value*> values;
  for (const Operand& element : elements) {
    const auto member_rank = context.memberRank(element);
    if (!member_rank || (!values.empty() && *member_rank != rank)) return std::nullopt;
    rank = *member_rank;
    values.push_back(context.stackedOf(element));
  }
  return values;
}

/// cat, stack: the elements stacked, the dim shifted. stack's dim is of the result.
BatchingRule join(const std::string& op, int64_t extra_rank) {
  return [op, extra_rank](RuleContext& context) -> RuleResult {
    const auto dim = context.constantInt(1);
    if (!dim) return context.decline("computed dim");
    int64_t rank = 0;
    const auto values = stackedElements(context, rank);
    if (!values) return context.decline("tensors of unknown or different ranks");
    return stackedResults(
        {context.emit(op, {context.tensorList(*values), shiftDim(*dim, rank + extra_rank)})});
  };
}

/// hstack, vstack, dstack: the elements with at least `rank` dims, joined along one of them;
/// column_stack makes columns of vectors.
BatchingRule joinAlong(int64_t axis, int64_t rank, bool columns = false) {
  return [axis, rank, columns](RuleContext& context) -> RuleResult {
    if (!context.knowsElements(0)) return context.decline("a list of unknown length");
    std::vector<Value*> values;
    int64_t along = axis;
    for (const Operand& element : context.elements(0)) {
      const auto own = context.memberRank(element);
      if (!own) return context.decline("tensors of unknown rank");
      Value* x = withDims(context, context.stackedOf(element), *own, columns ? 1 : rank);
      if (columns && *own <= 1) x = context.emit("aten::unsqueeze", {x, -1});  // [K,N] -> [K,N,1]
      values.push_back(x);
      if (rank == 1 && *own <= 1) along = 0;  // hstack of vectors
    }
    return stackedResults({context.emit("aten::cat", {context.tensorList(values), along + 1})});
  };
}

/// broadcast_tensors, meshgrid: a list of tensors with K in front.
RuleResult broadcastTensors(RuleContext& context) {
  if (!context.knowsElements(0)) return context.decline("a list of unknown length");
  const std::vector<Operand> elements = context.elements(0);
  int64_t rank = 0;
  for (const Operand& element : elements) {
    if (!context.memberRank(element)) return context.decline("tensors of unknown rank");
    rank = std::max(rank, *context.memberRank(element));
  }
  std::vector<Value*> raised;
  for (const Operand& element : elements)
    raised.push_back(
        context.raiseRank(context.stackedOf(element), *context.memberRank(element), rank));
  return stackedResults({context.emit("aten::broadcast_tensors", {context.tensorList(raised)})});
}

/// Vector i of n along its own dim: [K,L] -> [K,1,..,L,..,1]; a number is a vector of one.
Value* alongOwnDim(RuleContext& context, const Operand& element, size_t i, size_t n) {
  Value* x = withDims(context, context.stackedOf(element), *context.memberRank(element), 1);
  for (size_t d = 0; d < i; ++d) x = context.emit("aten::unsqueeze", {x, 1});
  for (size_t d = i + 1; d < n; ++d) x = context.emit("aten::unsqueeze", {x, -1});
  return x;
}

std::optional<std::vector<Value*>> grid(RuleContext& context) {
  if (!context.knowsElements(0)) return std::nullopt;
  const std::vector<Operand> elements = context.elements(0);
  std::vector<Value*> vectors;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (!context.memberRank(elements[i])) return std::nullopt;
    vectors.push_back(alongOwnDim(context, elements[i], i, elements.size()));
  }
  Value* all = context.emit("aten::broadcast_tensors", {context.tensorList(vectors)});
  return context.graph()
      .insertNode(context.graph().createListUnpack(all, elements.size()))
      ->outputs()
      .vec();
}

/// meshgrid({x, y}, indexing): 'xy' swaps the first two dims.
RuleResult meshgrid(RuleContext& context) {
  const bool named = context.has("indexing");
  const auto indexing = named ? context.constant(1) : std::nullopt;
  if (named && (!indexing || !indexing->isString())) return context.decline("computed indexing");
  auto vectors = grid(context);
  if (!vectors) return context.decline("tensors of unknown rank");
  const bool swapped = named && indexing->toStringRef() == "xy" && vectors->size() > 1;
  for (Value*& x : *vectors) {
    if (swapped) x = context.emit("aten::transpose", {x, 1, 2});
  }
  return stackedResults({context.tensorList(*vectors)});
}

/// cartesian_prod({x, y}): [K,A,B] of each -> [K,(A B)] -> [K,(A B),2]
RuleResult cartesianProduct(RuleContext& context) {
  auto vectors = grid(context);
  if (!vectors) return context.decline("tensors of unknown rank");
  if (vectors->size() == 1) return stackedResults({vectors->front()});
  for (Value*& x : *vectors) x = context.emit("aten::flatten", {x, 1, -1});
  return stackedResults({context.emit("aten::stack", {context.tensorList(*vectors), -1})});
}

/// combinations(x [L], r, with_replacement): of the places, then x there.  [C,r] -> [K,C,r]
RuleResult combinations(RuleContext& context) {
  Value* x = context.stacked(0);
  Value* device = context.emit("prim::device", {x});
  Value* places = context.emit("aten::arange", {context.emit("aten::size", {x, 1})},
                               {torch::jit::NamedValue("device", device)});
  Value* chosen = context.emit("aten::combinations",
                               {places, context.operand(1).value, context.operand(2).value});
  Value* row = context.emit("aten::flatten", {chosen});
  Value* found = context.emit("aten::index_select", {x, 1, row});
  return stackedResults(
      {context.emit("aten::unflatten", {found, 1, context.emit("aten::size", {chosen})})});
}

/// block_diag({a, b}): each [K,R,C] with zeros on its left and right, below each other.
RuleResult blockDiagonal(RuleContext& context) {
  if (!context.knowsElements(0)) return context.decline("a list of unknown length");
  std::vector<Value*> blocks, widths, rows;
  for (const Operand& element : context.elements(0)) {
    const auto rank = context.memberRank(element);
    if (!rank || *rank > 2) return context.decline("tensors of unknown rank");
    blocks.push_back(withDims(context, context.stackedOf(element), *rank, 2));
    widths.push_back(context.emit("aten::size", {blocks.back(), 2}));
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    Value* left = context.constantOf(0);
    Value* right = context.constantOf(0);
    for (size_t j = 0; j < blocks.size(); ++j) {
      if (j < i) left = context.emit("aten::add", {left, widths[j]});
      if (j > i) right = context.emit("aten::add", {right, widths[j]});
    }
    Value* pad = context.intList({left, right});
    rows.push_back(context.emit("aten::constant_pad_nd", {blocks[i], pad, 0}));
  }
  return stackedResults({context.emit("aten::cat", {context.tensorList(rows), 1})});
}

/// pad_sequence({a, b}, batch_first, ...) of tensors [L,...] of different lengths: K behind L, as
/// one of the dims that are left alone.  [K,L,...] -> [L,K,...]   [N,T,K,...] -> [K,N,T,...]
RuleResult padSequence(RuleContext& context) {
  if (!context.knowsElements(0)) return context.decline("a list of unknown length");
  std::vector<Value*> inputs = context.inputs(), sequences;
  for (const Operand& element : context.elements(0))
    sequences.push_back(context.emit("aten::movedim", {context.stackedOf(element), 0, 1}));
  inputs[0] = context.tensorList(sequences);
  return stackedResults({context.emit("aten::movedim", {context.emitSame(inputs)[0], 2, 0})});
}

/// hsplit, vsplit, dsplit: tensor_split along one dim; hsplit of a vector along its only one.
BatchingRule splitAlong(int64_t axis) {
  return [axis](RuleContext& context) -> RuleResult {
    const int64_t along = axis == 1 && context.rank(0) == 1 ? 0 : axis;
    return stackedResults({context.emit(
        "aten::tensor_split", {context.stacked(0), context.operand(1).value, along + 1})});
  };
}

/// tensor_split(x, indices_or_sections, dim) with numbers.
RuleResult tensorSplit(RuleContext& context) {
  if (context.isTensor(1)) return context.decline("places that are a tensor");
  return dimShift()(context);
}

}  // namespace

RuleRows joining() {
  return concatenated({
      rowsOf("view", join("aten::cat", 0), {"cat", "concat", "concatenate"}),
      rowsOf("view", join("aten::stack", 1), {"stack"}),
      rowsOf("view", joinAlong(1, 1), {"hstack"}),
      rowsOf("view", joinAlong(0, 2), {"vstack", "row_stack"}),
      rowsOf("view", joinAlong(2, 3), {"dstack"}),
      rowsOf("view", joinAlong(1, 2, /*columns=*/true), {"column_stack"}),
      rowsOf("view", broadcastTensors, {"broadcast_tensors"}),
      rowsOf("view", meshgrid, {"meshgrid"}),
      rowsOf("view", cartesianProduct, {"cartesian_prod"}),
      rowsOf("view", padSequence, {"pad_sequence"}),
      rowsOf("view", blockDiagonal, {"block_diag"}),
      rowsOf("gather", combinations, {"combinations"}),
      rowsOf("dim-shift", splitAlong(1), {"hsplit"}),
      rowsOf("dim-shift", splitAlong(0), {"vsplit"}),
      rowsOf("dim-shift", splitAlong(2), {"dsplit"}),
      rowsOf("dim-shift", dimShift(),
             {"chunk", "split", "split_with_sizes", "unbind", "unsafe_chunk", "unsafe_split",
              "unsafe_split_with_sizes", "split_copy", "split_with_sizes_copy", "unbind_copy"}),
      rowsOf("dim-shift", tensorSplit, {"tensor_split"}),
  });
}

}  // namespace chorus
