#include "lib/batching/families.h"

namespace chorus {
namespace {

/// zeros_like, full_like, ...
RuleResult like(RuleContext& context) {
  const auto inputs = withoutMemoryFormat(context);
  if (!inputs) return context.decline("computed memory_format");
  return stackedResults(context.emitSame(*inputs));
}

/// fill(x, value), value a number or a tensor of rank 0.  value [K] -> [K,1,...] -> [K,...]
RuleResult fill(RuleContext& context) {
  Value* x = context.stacked(0);
  if (!context.isTensor(1)) {
    return stackedResults({context.emit("aten::full_like", {x, context.operand(1).value})});
  }
  Value* value = context.emit("aten::type_as", {context.stackedAtRank(1, context.rank(0)), x});
  return stackedResults({context.emit("aten::expand_as", {value, x})});
}

}  // namespace

RuleRows factories() {
  return concatenated({
      rowsOf("factory", like, {"zeros_like", "ones_like", "empty_like", "full_like"}),
      // Sizes are arguments: nothing of the members goes in.
      rowsOf("factory", readsNoValue, {"new_zeros", "new_ones", "new_full", "new_empty"}),
      rowsOf("factory", fill, {"fill"}),
  });
}

}  // namespace chorus
