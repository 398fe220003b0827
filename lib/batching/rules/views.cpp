#include "lib/batching/dims.h"
#include "lib/batching/families.h"
#include "lib/support/fault.h"

namespace chorus {
namespace {

/// view, reshape: K in front of the sizes. Always reshape: a stacked tensor may be a view that
/// `view` would refuse. [K,N,C,H,W] with sizes [-1,400] -> [K,-1,400]
RuleResult reshape(RuleContext& context) {
  if (context.has("dtype")) {
    if (context.rank(0) == 0) return context.decline("reinterprets the bytes of a number");
    return elementwise(context);  // of another size: the last dim grows or shrinks
  }
  Value* sizes = fault("reshape_swallows_k") ? context.operand(1).value : context.countInFront(1);
  return stackedResults({context.emit("aten::reshape", {context.stacked(0), sizes})});
}

/// view_as, reshape_as: only the sizes of the other one count.
RuleResult reshapeAs(RuleContext& context) {
  Value* sizes = context.memberSizes(1);
  const Operand x = context.operand(0);
  if (!x.stacked)
    return std::vector<Operand>{{context.emit("aten::reshape", {x.value, sizes}), false}};
  Value* all = context.emit("aten::add", {context.intList({context.memberCount()}), sizes});
  return stackedResults({context.emit("aten::reshape", {x.value, all})});
}

/// [K,C] expanded to [N,C]: [K,1,C] -> [K,N,C]
RuleResult expand(RuleContext& context) {
  Value* x = context.stackedAtRank(0, context.outputRank());
  return stackedResults({context.emit("aten::expand", {x, context.countInFront(1)})});
}

RuleResult expandAs(RuleContext& context) {
  Value* sizes = context.memberSizes(1);
  const Operand x = context.operand(0);
  if (!x.stacked)
    return std::vector<Operand>{{context.emit("aten::expand", {x.value, sizes}), false}};
  Value* all = context.emit("aten::add", {context.intList({context.memberCount()}), sizes});
  return stackedResults(
      {context.emit("aten::expand", {context.stackedAtRank(0, context.outputRank()), all})});
}

/// repeat(x, repeats), tile(x, dims): K once.
RuleResult repeat(RuleContext& context) {
  const auto repeats = context.constantInts(1);
  if (!repeats) {
    if (context.op() != "aten::repeat") return context.decline("computed repeats");
    // One per dim of the result.  [N,1] -> [1,N,1]
    Value* one = context.intList({context.constantOf(1)});
    Value* all = context.emit("aten::add", {one, context.operand(1).value});
    return stackedResults(
        {context.emit("aten::repeat", {context.stackedAtRank(0, context.outputRank()), all})});
  }
  std::vector<int64_t> all = *repeats;
  // tile takes fewer repeats than dims: the missing ones are 1, in front.
  const auto rank = static_cast<size_t>(context.outputRank());
  if (all.size() < rank) all.insert(all.begin(), rank - all.size(), 1);
  all.insert(all.begin(), 1);
  return stackedResults(
      {context.emit("aten::repeat", {context.stackedAtRank(0, context.outputRank()), all})});
}

/// repeat_interleave(x, counts, dim), one count or one per place; without dim the member is taken
/// as one row.
RuleResult repeatInterleave(RuleContext& context) {
  if (context.isTensor(1) && context.operand(1).stacked)
    return context.decline("each member has its own counts");
  if (!context.has("self")) return context.decline("counts that are a tensor");
  const auto dim = context.constant(context.indexOf("dim"));
  if (!dim) return context.decline("computed dim");
  if (!dim->isNone()) return dimShift()(context);
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = context.emit("aten::flatten", {withDim(context, 0), 1, -1});
  inputs[context.indexOf("dim")] = context.constantOf(1);
  return stackedResults(context.emitSame(inputs));
}

/// flatten(x, start, end), ravel(x). A member of rank 0 becomes [1].
RuleResult flatten(RuleContext& context) {
  const int64_t rank = context.rank(0);
  if (rank == 0) return stackedResults({withDim(context, 0)});
  if (!context.has("start_dim"))
    return stackedResults({context.emit("aten::flatten", {context.stacked(0), 1, -1})});
  const auto start = context.constantInt(1), end = context.constantInt(2);
  if (!start || !end) return context.decline("computed dims");
  return stackedResults({context.emit(
      "aten::flatten", {context.stacked(0), shiftDim(*start, rank), shiftDim(*end, rank)})});
}

/// squeeze(x) drops the dims of size 1 that the member's graph knows, so never K, also where K
/// is 1.
RuleResult squeeze(RuleContext& context) {
  if (context.has("dim")) return dimShift()(context);
  std::vector<int64_t> dims;
  const auto sizes = context.sizes(0);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) dims.push_back(static_cast<int64_t>(i) + 1);
  }
  if (static_cast<int64_t>(sizes.size() - dims.size()) != context.outputRank()) {
    return context.decline("sizes that are not known");
  }
  return stackedResults({context.emit("aten::squeeze", {context.stacked(0), dims})});
}

/// sum_to_size(x, sizes): dims that the sizes do not have go behind K first, and vanish again.
/// [K,N,C] -> [K,1,C] -> [K,C]
RuleResult sumToSize(RuleContext& context) {
  const auto sizes = context.constantInts(1);
  if (!sizes) return context.decline("computed sizes");
  std::vector<Value*> all = {context.memberCount()}, wanted = all;
  const auto missing = context.rank(0) - static_cast<int64_t>(sizes->size());
  for (int64_t d = 0; d < missing; ++d) all.push_back(context.constantOf(1));
  for (const int64_t size : *sizes) {
    all.push_back(context.constantOf(size));
    wanted.push_back(all.back());
  }
  Value* sum = context.emit("aten::sum_to_size", {context.stacked(0), context.intList(all)});
  return stackedResults({context.emit("aten::reshape", {sum, context.intList(wanted)})});
}

/// atleast_2d(x): [K] -> [K,1,1], [K,C] -> [K,1,C]; atleast_3d: [K,C] -> [K,1,C,1], [K,H,W] ->
/// [K,H,W,1]
BatchingRule atLeast(int64_t rank) {
  return [rank](RuleContext& context) -> RuleResult {
    if (context.isTensor(0))
      return stackedResults({withDims(context, context.stacked(0), context.rank(0), rank)});
    if (!context.knowsElements(0)) return context.decline("a list of unknown length");
    std::vector<Value*> raised;
    for (const Operand& element : context.elements(0)) {
      const auto own = context.memberRank(element);
      if (!own) return context.decline("tensors of unknown rank");
      raised.push_back(withDims(context, context.stackedOf(element), *own, rank));
    }
    return stackedResults({context.tensorList(raised)});
  };
}

}  // namespace

RuleRows views() {
  return concatenated({
      rowsOf("view", reshape, {"view", "reshape", "view_copy", "_unsafe_view"}),
      rowsOf("view", reshapeAs, {"view_as", "reshape_as"}),
      rowsOf("view", expand, {"expand", "broadcast_to", "expand_copy"}),
      rowsOf("view", expandAs, {"expand_as"}),
      rowsOf("view", repeat, {"repeat", "tile"}),
      rowsOf("view", repeatInterleave, {"repeat_interleave"}),
      rowsOf("view", flatten, {"flatten", "ravel"}),
      rowsOf("view", squeeze, {"squeeze", "squeeze_copy"}),
      rowsOf("view", sumToSize, {"sum_to_size"}),
      rowsOf("view", atLeast(1), {"atleast_1d"}),
      rowsOf("view", atLeast(2), {"atleast_2d"}),
      rowsOf("view", atLeast(3), {"atleast_3d"}),
  });
}

}  // namespace chorus
