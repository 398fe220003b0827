#include "lib/batching/dims.h"
#include "lib/batching/families.h"

namespace chorus {
namespace {

RuleResult shared(Value* value) { return std::vector<Operand>{{value, false}}; }

/// size(x, d), size(x): the member's.
RuleResult size(RuleContext& context) {
  if (!context.has("dim")) return shared(context.memberSizes(0));
  const auto dim = context.constantInt(1);
  if (!dim) return context.decline("computed dim");
  return shared(
      context.emit("aten::size", {context.operand(0).value, shiftDim(*dim, context.rank(0))}));
}

RuleResult numel(RuleContext& context) {
  Value* all = context.emit("aten::numel", {context.operand(0).value});
  return shared(context.emit("aten::floordiv", {all, context.memberCount()}));
}

RuleResult rank(RuleContext& context) { return shared(context.constantOf(context.rank(0))); }

RuleResult length(RuleContext& context) {
  if (!context.isTensor(0)) return context.decline("the length of a list");
  return shared(context.emit("aten::size", {context.operand(0).value, 1}));
}

}  // namespace

RuleRows shapes() {
  RuleRows rows = concatenated({
      rowsOf("shape", size, {"size"}),
      rowsOf("shape", numel, {"numel"}),
      rowsOf("shape", rank, {"dim"}),
      rowsOf("shape", length, {"len"}),
      rowsOf("shape", readsNoValue, {"is_floating_point", "is_complex"}),
  });
  for (const char* name : {"prim::dtype", "prim::device", "prim::layout", "prim::is_cuda"}) {
    rows.push_back({name, readsNoValue, "shape"});
  }
  return rows;
}

}  // namespace chorus
