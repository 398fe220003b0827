#include "lib/batching/dims.h"
#include "lib/batching/families.h"

namespace chorus {
namespace {

/// Both tensors stacked and of one rank: [K,1,...,D], [K,N,...,D]
std::vector<Value*> bothStacked(RuleContext& context, int64_t rank) {
  std::vector<Value*> inputs = context.inputs();
  for (const size_t i : {0, 1}) inputs[i] = context.stackedAtRank(i, rank);
  return inputs;
}

/// cdist(x [...,P,D], y [...,R,D], p, mode)
RuleResult cdist(RuleContext& context) {
  const int64_t rank = largestRank(context, {0, 1});
  return stackedResults(context.emitSame(bothStacked(context, rank)));
}

/// pairwise_distance(x, y, p, eps, keepdim), over the last dim.
RuleResult pairwise(RuleContext& context) {
  const int64_t rank = largestRank(context, {0, 1});
  if (rank == 0) return context.decline("tensors without dims");
  return stackedResults(context.emitSame(bothStacked(context, rank)));
}

/// An op of two tensors that broadcast, along one dim of the result.
RuleResult alongBroadcastDim(RuleContext& context) {
  const int64_t rank = largestRank(context, {0, 1});
  const size_t at = context.indexOf("dim");
  const auto dim = context.constantInt(at);
  if (!dim || rank == 0) return context.decline(dim ? "tensors without dims" : "computed dim");
  std::vector<Value*> inputs = bothStacked(context, rank);
  inputs[at] = context.constantOf(shiftDim(*dim, rank));
  return stackedResults(context.emitSame(inputs));
}

/// cross(x, y, dim?): without dim, the first of size 3.
RuleResult cross(RuleContext& context) {
  const size_t at = context.indexOf("dim");
  if (!context.isNone(at)) return alongBroadcastDim(context);
  const int64_t rank = largestRank(context, {0, 1});
  const auto x = context.sizes(0), y = context.sizes(1);
  if (x.size() != y.size()) return context.decline("tensors of different ranks");
  for (size_t d = 0; d < x.size(); ++d) {
    if (!x[d] || !y[d]) return context.decline("sizes that are not known");
    if (std::max(*x[d], *y[d]) != 3) continue;
    std::vector<Value*> inputs = bothStacked(context, rank);
    inputs[at] = context.constantOf(static_cast<int64_t>(d) + 1);
    return stackedResults(context.emitSame(inputs));
  }
  return context.decline("no dim of size 3");
}

Value* normOfRows(RuleContext& context, Value* rows, size_t order) {
  return context.emit("aten::linalg_vector_norm",
                      {rows, context.operand(order).value, std::vector<int64_t>{-1}});
}

/// dist(x, y, p) = |x - y|_p.  [K,...] -> [K,P] -> [K]
RuleResult dist(RuleContext& context) {
  const int64_t rank = largestRank(context, {0, 1});
  std::vector<Value*> inputs = bothStacked(context, rank);
  Value* difference = context.emit("aten::sub", {inputs[0], inputs[1]});
  Value* row = rank == 0 ? context.emit("aten::unsqueeze", {difference, 1})
                         : context.emit("aten::flatten", {difference, 1, -1});
  return stackedResults({normOfRows(context, row, 2)});
}

/// pdist(x [N,D], p): |x_i - x_j|_p for i < j.  [K,N,D] -> [K,P,D] -> [K,P]
RuleResult pdist(RuleContext& context) {
  Value* x = context.stacked(0);
  Value* rows = context.emit("aten::size", {x, 1});
  Value* device = context.emit("prim::device", {x});
  Value* pairs = context.emit("aten::triu_indices", {rows, rows, 1},
                              {torch::jit::NamedValue("device", device)});
  const auto rowsAt = [&](int64_t i) {
    return context.emit("aten::index_select", {x, 1, context.emit("aten::select", {pairs, 0, i})});
  };
  Value* difference = context.emit("aten::sub", {rowsAt(0), rowsAt(1)});
  return stackedResults({normOfRows(context, difference, 1)});
}

/// renorm(x, p, dim, maxnorm): slices along dim whose norm is above maxnorm are scaled down to it.
RuleResult renorm(RuleContext& context) {
  const auto dim = context.constantInt(2);
  if (!dim) return context.decline("computed dim");
  const int64_t axis = shiftDim(*dim, context.rank(0));
  std::vector<int64_t> others;
  for (int64_t d = 1; d <= context.rank(0); ++d) {
    if (d != axis) others.push_back(d);
  }
  if (others.empty()) return context.decline("a vector");
  Value* x = context.stacked(0);
  Value* most = context.operand(3).value;
  Value* norm =
      context.emit("aten::linalg_vector_norm", {x, context.operand(1).value, others, true});
  Value* above = context.emit("aten::gt", {norm, most});
  Value* scale = context.emit(
      "aten::mul",
      {context.emit("aten::reciprocal", {context.emit("aten::add", {norm, 1e-7})}), most});
  Value* factor =
      context.emit("aten::where", {above, scale, context.emit("aten::ones_like", {norm})});
  return stackedResults({context.emit("aten::mul", {x, factor})});
}

}  // namespace

RuleRows distances() {
  return concatenated({
      rowsOf("contraction", cdist, {"cdist", "_euclidean_dist"}),
      rowsOf("reduction", pairwise, {"pairwise_distance"}),
      rowsOf("reduction", alongBroadcastDim, {"cosine_similarity", "linalg_vecdot"}),
      rowsOf("broadcasting", alongBroadcastDim, {"linalg_cross"}),
      rowsOf("broadcasting", cross, {"cross"}),
      rowsOf("reduction", dist, {"dist"}),
      rowsOf("reduction", pdist, {"pdist"}),
      rowsOf("reduction", renorm, {"renorm"}),
  });
}

}  // namespace chorus
