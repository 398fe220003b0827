#include "chorus/batching_rule.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

// layer_norm(input, normalized_shape, weight?, bias?, eps, ...), rms_norm(input, normalized_shape,
// weight?, eps): stacked weights act outside, on the normalised value. `parameters`: inputs 2 up to
// there.
RuleResult overLastDims(RuleContext& context, size_t parameters) {
  std::vector<Value*> inputs = context.inputs();
  bool outside = false;
  for (size_t i = 2; i < parameters; ++i) outside = outside || isStacked(context, i);
  if (outside) {
    for (size_t i = 2; i < parameters; ++i) inputs[i] = context.constantOf(c10::IValue());
  }
  Value* y = context.emitSame(inputs)[0];
  if (!outside) return stackedResults({y});
  // [K,D] -> [K,1,...,D]; a shared [D] broadcasts as it is
  const auto parameter = [&](size_t i) -> Value* {
    if (i >= parameters || context.isNone(i)) return nullptr;
    return isStacked(context, i) ? context.stackedAtRank(i, context.rank(0))
                                 : context.operand(i).value;
  };
  Value* weight = parameter(2);
  Value* bias = parameter(3);
  if (weight && bias) return stackedResults({context.emit("aten::addcmul", {bias, y, weight})});
  if (weight) y = context.emit("aten::mul", {y, weight});
  if (bias) y = context.emit("aten::add", {y, bias});
  return stackedResults({y});
}

RuleResult layerNorm(RuleContext& context) { return overLastDims(context, 4); }

RuleResult rmsNorm(RuleContext& context) { return overLastDims(context, 3); }

// group_norm(input, num_groups, weight?, bias?, eps, ...): K times as many groups. The kernel is
// four times slower where channels come last.
RuleResult groupNorm(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = context.emit("aten::contiguous", {context.merge(context.stacked(0))});
  inputs[1] = timesMembers(context, 1);
  inputs[2] = mergedParameter(context, 2);
  inputs[3] = mergedParameter(context, 3);
  return stackedResults({context.unmerge(context.emitSame(inputs)[0])});
}

}  // namespace

RuleRows normalization() {
  return {
      {"aten::layer_norm", layerNorm, "reduction"},
      {"aten::rms_norm", rmsNorm, "reduction"},
      {"aten::group_norm", groupNorm, "grouped"},
  };
}

}  // namespace chorus
