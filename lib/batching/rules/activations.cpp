#include "lib/batching/families.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

/// prelu(x, weight) with one slope per channel, dim 1.  x [K,N,C,...], weight [K,C] -> on [N,(K
/// C),...] One slope for all: where(x > 0, x, weight * x) with weight [K] -> [K,1,...].
RuleResult prelu(RuleContext& context) {
  const int64_t rank = context.rank(0);
  const auto sizes = context.sizes(1);
  if (sizes.size() == 1 && !sizes[0]) return context.decline("a weight of unknown size");
  const bool one_slope = sizes.empty() || sizes[0] == 1;
  if (!one_slope && rank >= 2) {
    std::vector<Value*> inputs = {context.merge(context.stacked(0)), mergedParameter(context, 1)};
    return stackedResults({context.unmerge(context.emitSame(inputs).front())});
  }
  if (!one_slope) return context.decline("slopes for the dims of a vector");
  Value* slope = context.operand(1).value;
  if (context.operand(1).stacked) {
    slope = context.emit("aten::flatten", {slope, 0, -1});  // [K] or [K,1] -> [K]
    slope = context.raiseRank(slope, 0, rank);
  } else if (rank == 0) {
    slope = context.emit("aten::flatten", {slope, 0, -1});  // [] or [1] -> [1]
  }
  Value* x = context.stacked(0);
  Value* positive = context.emit("aten::gt", {x, 0});
  return stackedResults(
      {context.emit("aten::where", {positive, x, context.emit("aten::mul", {x, slope})})});
}

/// rrelu(x, lower, upper, training): a slope per element and member, or the middle one.
RuleResult rrelu(RuleContext& context) { return allOperandsStacked(context); }

}  // namespace

RuleRows activations() {
  return concatenated({
      rowsOf("grouped", prelu, {"prelu"}),
      rowsOf("random", rrelu, {"rrelu"}),
  });
}

}  // namespace chorus
