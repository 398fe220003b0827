#include "chorus/batching_rule.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

// aten::convolution(input, weight, bias?, stride, padding, dilation, transposed, output_padding,
// groups)
constexpr size_t kInput = 0, kWeight = 1, kBias = 2, kTransposed = 6, kGroups = 8;

// y + bias over the channels.  y [N,O,...] or [K,N,O,...], bias [K,O] -> [K,N,O,...]
Value* addStackedBias(RuleContext& context, Value* y) {
  Value* bias = context.emit("aten::unsqueeze", {context.stacked(kBias), 1});  // [K,O] -> [K,1,O]
  for (int64_t d = 2; d < context.rank(kInput); ++d) {
    bias = context.emit("aten::unsqueeze", {bias, -1});  // [K,1,O] -> [K,1,O,1,...]
  }
  return context.emit("aten::add", {y, bias});
}

// One weight for all: K into N.
RuleResult sharedWeight(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  const bool stacked_input = isStacked(context, kInput);
  const bool stacked_bias = isStacked(context, kBias);
  if (stacked_input) inputs[kInput] = foldIntoBatch(context, inputs[kInput]);
  if (stacked_bias) inputs[kBias] = context.constantOf(c10::IValue());
  Value* y = context.emitSame(inputs)[0];
  if (stacked_input) y = unfoldFromBatch(context, y);  // [(K N),O,...] -> [K,N,O,...]
  if (stacked_bias) y = addStackedBias(context, y);
  return stackedResults({y});
}

// All members see one input: one plain convolution with (K O) outputs.
RuleResult sharedInput(RuleContext& context, bool transposed) {
  std::vector<Value*> inputs = context.inputs();
  Value* weight = context.stacked(kWeight);
  if (transposed)
    weight = context.emit("aten::transpose", {weight, 0, 1});  // [K,I,O,...] -> [I,K,O,...]
  const int64_t k_dim = transposed ? 1 : 0;
  // [K,O,I,...] -> [(K O),I,...], transposed [I,K,O,...] -> [I,(K O),...]
  inputs[kWeight] = context.emit("aten::flatten", {weight, k_dim, k_dim + 1});
  inputs[kBias] = mergedParameter(context, kBias);
  return stackedResults({context.unmerge(context.emitSame(inputs)[0])});
}

// K times as many groups.
RuleResult grouped(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  inputs[kInput] = context.merge(context.stacked(kInput));
  // [K,O,I/g,...] -> [(K O),I/g,...], transposed [K,I,O/g,...] -> [(K I),O/g,...]
  inputs[kWeight] = mergedParameter(context, kWeight);
  inputs[kBias] = mergedParameter(context, kBias);
  inputs[kGroups] = timesMembers(context, kGroups);
  return stackedResults({context.unmerge(context.emitSame(inputs)[0])});
}

RuleResult rule(RuleContext& context) {
  const auto transposed = context.constant(kTransposed);
  if (!transposed || context.rank(kInput) != context.rank(kWeight)) return std::nullopt;
  if (!isStacked(context, kWeight)) return sharedWeight(context);
  if (!isStacked(context, kInput) && context.constantInt(kGroups) == 1) {
    return sharedInput(context, transposed->toBool());
  }
  return grouped(context);
}

}  // namespace

RuleRows convolution() { return {{"aten::convolution", rule, "grouped"}}; }

}  // namespace chorus
