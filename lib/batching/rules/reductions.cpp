#include "lib/batching/dims.h"
#include "lib/batching/families.h"
#include "lib/support/fault.h"

namespace chorus {
namespace {

using c10::IValue;
using torch::jit::NamedValue;

/// Every dim of the member, behind K.
std::vector<int64_t> memberDims(const RuleContext& context) {
  if (fault("reduces_over_members")) return {0};
  return dimRange(1, std::max<int64_t>(1, context.rank(0)));
}

/// [K,...] -> [K,P]
Value* flat(RuleContext& context) {
  Value* x = withDim(context, 0);
  return context.rank(0) > 1 ? context.emit("aten::flatten", {x, 1, -1}) : x;
}

/// A list of dims; none of them, or none given, means all.
RuleResult overList(RuleContext& context) {
  const size_t i = context.indexOf("dim");
  const auto known = context.constant(i);
  if (!known) return context.decline("computed dim");
  std::vector<int64_t> dims;
  if (!known->isNone()) dims = shiftDims(*context.constantInts(i), context.rank(0));
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = withDim(context, 0);
  inputs[i] = context.constantOf(dims.empty() ? memberDims(context) : dims);
  return restoreRanks(context, context.emitSame(inputs));
}

/// One dim; None means all of them, taken as one.
RuleResult overOne(RuleContext& context) {
  const size_t i = context.indexOf("dim");
  const auto known = context.constant(i);
  if (!known) return context.decline("computed dim");
  if (!known->isNone()) return dimShift()(context);
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = flat(context);
  inputs[i] = context.constantOf(1);
  if (context.has("keepdim")) inputs[context.indexOf("keepdim")] = context.constantOf(false);
  std::vector<Value*> results = context.emitSame(inputs);
  // [K] -> [K,1,...,1] with keepdim
  for (size_t j = 0; j < results.size(); ++j) {
    results[j] = context.raiseRank(results[j], 0, context.outputRank(j));
  }
  return stackedResults(results);
}

/// sum(x), mean(x): no dim in the schema.
RuleResult sumLike(RuleContext& context) {
  if (context.has("dim")) return overList(context);
  Value* dtype = context.operand(context.indexOf("dtype")).value;
  return stackedResults(
      {context.emit(context.op(), {withDim(context, 0), memberDims(context), false},
                    {NamedValue("dtype", dtype)})});
}

RuleResult product(RuleContext& context) {
  if (context.has("dim")) return overOne(context);
  Value* dtype = context.operand(context.indexOf("dtype")).value;
  return stackedResults(
      {context.emit(context.op(), {flat(context), 1, false}, {NamedValue("dtype", dtype)})});
}

RuleResult allOrAny(RuleContext& context) {
  if (!context.has("dim"))
    return stackedResults({context.emit(context.op(), {flat(context), 1, false})});
  const auto known = context.constant(context.indexOf("dim"));
  if (known && known->isInt()) return overOne(context);
  // An empty list reduces nothing here, other than in sum: not worth a rule.
  if (known && known->isIntList() && known->toIntVector().empty())
    return context.decline("no dims");
  return overList(context);
}

/// var(x, unbiased), var.dim, var.correction; the same for std, var_mean, std_mean.
RuleResult spread(RuleContext& context) {
  if (context.has("dim")) {
    // PyTorch's gradient for an empty list is not that of all dims.
    const auto known = context.constant(context.indexOf("dim"));
    if (known && known->isIntList() && known->toIntVector().empty())
      return context.decline("no dims");
    return overList(context);
  }
  return stackedResults(context.emitAll(
      context.op(), {withDim(context, 0), memberDims(context), context.operand(1).value, false}));
}

RuleResult norm(RuleContext& context) {
  if (context.has("dim")) return overList(context);
  const std::vector<NamedValue> arguments = {withDim(context, 0), context.operand(1).value,
                                             memberDims(context), false};
  if (!context.has("dtype")) return stackedResults({context.emit("aten::norm", arguments)});
  Value* dtype = context.operand(context.indexOf("dtype")).value;
  return stackedResults({context.emit("aten::norm", arguments, {NamedValue("dtype", dtype)})});
}

/// max(x, y), max(x, dim) -> (values, indices), max(x).
BatchingRule extremum(const std::string& over_all) {
  return [over_all](RuleContext& context) -> RuleResult {
    if (context.has("other")) return broadcasting(context);
    if (context.has("dim")) return overOne(context);
    return stackedResults({context.emit(over_all, {withDim(context, 0), memberDims(context)})});
  };
}

/// Its gradient over all elements splits ties, over one dim it does not: only the form with dim has
/// a rule.
RuleResult median(RuleContext& context) {
  if (!context.has("dim")) return context.decline("the median of all elements");
  return overOne(context);
}

RuleResult countNonzero(RuleContext& context) {
  const auto known = context.constant(context.indexOf("dim"));
  if (!known) return context.decline("computed dim");
  if (!known->isIntList()) return overOne(context);
  if (known->toIntVector().empty())
    return stackedResults({context.emit(context.op(), {flat(context), 1})});
  return overList(context);
}

}  // namespace

RuleRows reductions() {
  return concatenated({
      rowsOf("reduction", sumLike, {"sum", "mean"}),
      rowsOf("reduction", overList,
             {"nansum", "nanmean", "amax", "amin", "logsumexp", "linalg_vector_norm"}),
      rowsOf("reduction", overOne, {"argmax", "argmin", "aminmax", "kthvalue", "mode"}),
      rowsOf("reduction", product, {"prod"}),
      rowsOf("reduction", allOrAny, {"all", "any"}),
      rowsOf("reduction", spread, {"var", "std", "var_mean", "std_mean"}),
      rowsOf("reduction", norm, {"norm"}),
      rowsOf("reduction", extremum("aten::amax"), {"max"}),
      rowsOf("reduction", extremum("aten::amin"), {"min"}),
      rowsOf("reduction", median, {"median", "nanmedian"}),
      rowsOf("reduction", countNonzero, {"count_nonzero"}),
  });
}

}  // namespace chorus
