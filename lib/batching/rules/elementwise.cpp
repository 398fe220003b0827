#include "lib/batching/families.h"

namespace chorus {
namespace {

/// Copies and conversions.
RuleResult conversion(RuleContext& context) {
  // x.type_as(y), x.to(y): y lends its dtype alone.
  if (!context.operand(0).stacked) return readsNoValue(context);
  const auto inputs = withoutMemoryFormat(context);
  if (!inputs) return context.decline("computed memory_format");
  return stackedResults(context.emitSame(*inputs));
}

/// On the last two dims, which stay the last two.
RuleResult onMatrices(RuleContext& context) {
  if (context.rank(0) < 2) return context.decline("a matrix op on a tensor of rank below 2");
  return elementwise(context);
}

}  // namespace

RuleRows elementwise() {
  const BatchingRule rule = static_cast<RuleResult (*)(RuleContext&)>(elementwise);
  return concatenated({
      rowsOf("elementwise", rule,
             {"abs",           "absolute",    "neg",          "negative",      "positive",
              "sign",          "sgn",         "ceil",         "floor",         "round",
              "trunc",         "fix",         "frac",         "exp",           "exp2",
              "expm1",         "log",         "log2",         "log10",         "log1p",
              "sqrt",          "rsqrt",       "reciprocal",   "square",        "sin",
              "cos",           "tan",         "asin",         "acos",          "atan",
              "sinh",          "cosh",        "tanh",         "asinh",         "acosh",
              "atanh",         "arcsin",      "arccos",       "arctan",        "arcsinh",
              "arccosh",       "arctanh",     "erf",          "erfc",          "erfinv",
              "lgamma",        "digamma",     "i0",           "sinc",          "sigmoid",
              "logit",         "deg2rad",     "rad2deg",      "special_expit", "special_log1p",
              "special_expm1", "special_erf", "special_erfc", "special_ndtr",  "special_log_ndtr",
              "special_entr",  "special_i0e", "special_i1"}),
      rowsOf("elementwise", rule,
             {"relu", "relu6", "elu", "celu", "selu", "gelu", "silu", "mish", "softplus",
              "softshrink", "hardshrink", "hardtanh", "hardsigmoid", "hardswish", "leaky_relu",
              "log_sigmoid", "threshold"}),
      rowsOf("elementwise", rule,
             {"isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "signbit",
              "logical_not", "bitwise_not", "nan_to_num"}),
      rowsOf("elementwise", conversion,
             {"clone", "chalf", "contiguous", "to", "type_as", "detach", "alias", "lift_fresh",
              "lift_fresh_copy", "_to_copy", "detach_copy", "alias_copy"}),
      rowsOf("elementwise", onMatrices, {"tril", "triu"}),
  });
}

}  // namespace chorus
