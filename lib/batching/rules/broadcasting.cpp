#include "lib/batching/families.h"

namespace chorus {

RuleRows broadcasting() {
  const BatchingRule rule = static_cast<RuleResult (*)(RuleContext&)>(broadcasting);
  return concatenated({
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
             {"maximum", "minimum", "fmax", "fmin", "clamp", "clamp_min", "clamp_max", "clip",
              "lerp", "addcmul", "addcdiv"}),
      rowsOf("broadcasting", rule,
             {"eq", "ne", "lt", "le", "gt", "ge", "not_equal", "less", "less_equal", "greater",
              "greater_equal", "isclose", "logical_and", "logical_or", "logical_xor"}),
      rowsOf("broadcasting", rule,
             {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
              "bitwise_right_shift", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__"}),
  });
}

}  // namespace chorus
