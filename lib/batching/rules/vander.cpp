#include "lib/batching/families.h"

namespace chorus {
namespace {

/// vander(x [V], N?, increasing): powers 0 ... N - 1 as columns.  [K,V] -> [K,V,N]
RuleResult rule(RuleContext& context) {
  const auto increasing = context.constant(2), columns = context.constant(1);
  const auto dtype = context.dtype(0);
  if (!increasing || !columns || !dtype) return context.decline("computed arguments");
  if (columns->isInt() && columns->toInt() < 1) return context.decline("no columns");
  Value* x = context.stacked(0);
  if (at::isIntegralType(*dtype, true))
    x = context.emit("aten::to", {x, static_cast<int64_t>(at::kLong)});
  Value* count =
      columns->isNone() ? context.emit("aten::size", {x, 1}) : context.constantOf(columns->toInt());
  Value* column = context.emit("aten::unsqueeze", {x, -1});
  Value* sizes = context.intList(
      {context.constantOf(-1), context.constantOf(-1), context.emit("aten::sub", {count, 1})});
  Value* powers =
      context.emit("aten::cumprod", {context.emit("aten::expand", {column, sizes}), -1});
  Value* ones = context.emit("aten::ones_like", {column});
  Value* y = context.emit("aten::cat", {context.tensorList({ones, powers}), -1});
  if (!increasing->toBool()) y = context.emit("aten::flip", {y, std::vector<int64_t>{-1}});
  return stackedResults({y});
}

}  // namespace

RuleRows vander() { return rowsOf("elementwise", rule, {"vander"}); }

}  // namespace chorus
