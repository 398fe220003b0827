#include "lib/batching/dims.h"
#include "lib/batching/families.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

/// quantile(x, q, dim?, keepdim, interpolation): a dim for a q of rank 1 stands in front of all.
/// [Q,K,...] -> [K,Q,...]
RuleResult quantile(RuleContext& context) {
  if (isStacked(context, 1)) return context.decline("each member has its own q");
  const size_t at = context.indexOf("dim");
  const auto dim = context.constant(at);
  const auto keep = context.constant(context.indexOf("keepdim"));
  if (!dim || !keep) return context.decline("computed dim");
  const bool list = context.isTensor(1) && context.rank(1) == 1;
  std::vector<Value*> inputs = context.inputs();
  if (dim->isNone()) {
    if (keep->toBool()) return context.decline("keepdim without dim");
    inputs[0] = context.emit("aten::flatten", {withDim(context, 0), 1, -1});
    inputs[at] = context.constantOf(1);
  } else {
    if (context.rank(0) == 0) return context.decline("a tensor without dims");
    inputs[0] = context.stacked(0);
    inputs[at] = context.constantOf(shiftDim(dim->toInt(), context.rank(0)));
  }
  Value* y = context.emitSame(inputs)[0];
  return stackedResults({list ? context.emit("aten::movedim", {y, 0, 1}) : y});
}

/// Each boundary list is a row of its own: [K,B], and the values [K,...] -> [K,P] -> [K,...]
RuleResult searched(RuleContext& context, size_t boundaries, size_t values) {
  if (!context.isTensor(values)) return context.decline("a number");
  Value* sorter = nullptr;
  bool own = isStacked(context, boundaries) || context.rank(boundaries) > 1;
  if (context.has("sorter") && !context.isNone(context.indexOf("sorter"))) {
    sorter = context.stacked(context.indexOf("sorter"));
    own = own || isStacked(context, context.indexOf("sorter"));
  }
  if (!own) return stackedResults(context.emitSame(context.inputs()));
  Value* sorted = context.stacked(boundaries);
  if (sorter != nullptr) sorted = context.emit("aten::gather", {sorted, -1, sorter});
  const bool rows = context.rank(boundaries) == 1;  // of any shape: [K,...] -> [K,P]
  Value* searched = rows ? context.emit("aten::flatten", {withDim(context, values), 1, -1})
                         : context.stacked(values);
  const auto flag = [&](const char* name) { return context.operand(context.indexOf(name)).value; };
  std::vector<torch::jit::NamedValue> keywords = {{"out_int32", flag("out_int32")},
                                                  {"right", flag("right")}};
  if (context.has("side")) keywords.emplace_back("side", flag("side"));
  Value* found = context.emit("aten::searchsorted", {sorted, searched}, keywords);
  if (rows) found = context.emit("aten::view_as", {found, context.stacked(values)});
  return stackedResults({found});
}

/// bucketize(x, boundaries), searchsorted(sorted, x)
RuleResult bucketize(RuleContext& context) { return searched(context, 1, 0); }
RuleResult searchsorted(RuleContext& context) { return searched(context, 0, 1); }

/// isin(x, among): with values of each member's own, any(x == among).  [K,...,1] == [K,1,...,P]
RuleResult isin(RuleContext& context) {
  if (!context.isTensor(0) || !context.isTensor(1)) return context.decline("a number");
  if (!isStacked(context, 1)) return elementwise(context);
  const auto invert = context.constant(context.indexOf("invert"));
  if (!invert) return context.decline("computed invert");
  Value* x = context.emit("aten::unsqueeze", {context.stacked(0), -1});
  Value* among = context.emit("aten::flatten", {withDim(context, 1), 1, -1});
  among = context.raiseRank(among, 1, context.rank(0) + 1);
  Value* found = context.emit("aten::any", {context.emit("aten::eq", {x, among}), -1});
  return stackedResults({invert->toBool() ? context.emit("aten::logical_not", {found}) : found});
}

/// trapezoid(y, x, dim), cumulative_trapezoid: x of one dim lies along dim.
RuleResult trapezoid(RuleContext& context) {
  const size_t at = context.indexOf("dim");
  const auto dim = context.constantInt(at);
  const int64_t rank = context.rank(0);
  if (!dim || rank == 0) return context.decline("computed dim, or no dims");
  if (!context.has("x")) return dimShift()(context);
  if (context.rank(1) > rank) return context.decline("places of higher rank");
  const int64_t axis = shiftDim(*dim, rank);
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = context.stacked(0);
  inputs[at] = context.constantOf(axis);
  if (context.rank(1) == 1) {
    std::vector<int64_t> aligned(static_cast<size_t>(rank), 1);  // [K,L] -> [K,1,..,L,..,1]
    aligned[static_cast<size_t>(axis) - 1] = -1;
    inputs[1] = context.emit("aten::unflatten", {context.stacked(1), 1, aligned});
  } else {
    inputs[1] = context.stackedAtRank(1, rank);
  }
  return stackedResults(context.emitSame(inputs));
}

}  // namespace

RuleRows statistics() {
  return concatenated({
      rowsOf("reduction", quantile, {"quantile", "nanquantile"}),
      rowsOf("gather", bucketize, {"bucketize"}),
      rowsOf("gather", searchsorted, {"searchsorted"}),
      rowsOf("broadcasting", isin, {"isin"}),
      rowsOf("dim-shift", trapezoid, {"trapezoid", "trapz", "cumulative_trapezoid"}),
  });
}

}  // namespace chorus
