#include "lib/batching/families.h"

namespace chorus {
namespace {

/// clamp(x, min, max) with bounds that are tensors: x does not broadcast against them in its
/// gradient.
RuleResult clamp(RuleContext& context) {
  const std::vector<size_t> tensors = {0, 1, 2};
  auto inputs = alignedInputs(context, tensors, tensors);
  if (!inputs) return context.decline("an operand's dtype is not known");
  if (!context.operand(0).stacked) {
    inputs->at(0) = context.stackedAtRank(0, largestRank(context, tensors));
    if (context.rank(0) == 0) {
      if (!context.outputDtype()) return context.decline("an operand's dtype is not known");
      const auto dtype = static_cast<int64_t>(*context.outputDtype());
      inputs->at(0) = context.emit("aten::to", {inputs->at(0), dtype});
    }
  }
  return stackedResults(context.emitSame(*inputs));
}

/// isclose(x, y): both in full; it writes into a result as large as x.
RuleResult isClose(RuleContext& context) {
  auto inputs = alignedInputs(context, {0, 1}, {0, 1});
  if (!inputs) return context.decline("an operand's dtype is not known");
  const int64_t rank = largestRank(context, {0, 1});
  for (const size_t i : {0, 1}) {
    if (!context.operand(i).stacked) inputs->at(i) = context.stackedAtRank(i, rank);
  }
  return stackedResults(context.emitSame(*inputs));
}

}  // namespace

RuleRows broadcasting() {
  const BatchingRule rule = static_cast<RuleResult (*)(RuleContext&)>(broadcasting);
  return concatenated({
      rowsOf("broadcasting", clamp, {"clamp", "clip"}),
      rowsOf("broadcasting", isClose, {"isclose"}),
      rowsOf("broadcasting", rule,
             {"add",
              "sub",
              "subtract",
              "rsub",
              "mul",
              "multiply",
              "div",
              "divide",
              "true_divide",
              "floor_divide",
              "remainder",
              "fmod",
              "pow",
              "float_power",
              "atan2",
              "arctan2",
              "hypot",
              "logaddexp",
              "logaddexp2",
              "xlogy",
              "special_xlog1py",
              "special_xlogy",
              "copysign",
              "heaviside",
              "ldexp",
              "nextafter",
              "gcd",
              "lcm"}),
      rowsOf("broadcasting", rule,
             {"maximum", "minimum", "fmax", "fmin", "clamp_min", "clamp_max", "lerp", "addcmul",
              "addcdiv"}),
      rowsOf("broadcasting", rule,
             {"eq", "ne", "lt", "le", "gt", "ge", "not_equal", "less", "less_equal", "greater",
              "greater_equal", "logical_and", "logical_or", "logical_xor"}),
      rowsOf("broadcasting", rule,
             {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
              "bitwise_right_shift", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__"}),
  });
}

}  // namespace chorus
