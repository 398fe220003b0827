#include "lib/batching/dims.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

/// (x, scale, zero_point, quant_min, quant_max): numbers, or tensors of one element. Those of the
/// members' own are channels of one tensor.
RuleResult perTensor(RuleContext& context) {
  if (!isStacked(context, 1) && !isStacked(context, 2)) return elementwise(context);
  return context.decline("a scale of each member's own");
}

/// (x, scale [C], zero_point [C], axis, quant_min, quant_max): K times as many channels.
RuleResult perChannel(RuleContext& context) {
  constexpr size_t kAxis = 3;
  const auto axis = context.constantInt(kAxis);
  if (!axis) return context.decline("computed axis");
  const int64_t at = shiftDim(*axis, context.rank(0));
  std::vector<Value*> inputs = context.inputs();
  if (!isStacked(context, 1) && !isStacked(context, 2)) {
    inputs[kAxis] = context.constantOf(at);
    return stackedResults(context.emitSame(inputs));
  }
  // [K,...,C,...] -> [K,C,...] -> [(K C),...] and back
  Value* x = context.emit("aten::movedim", {context.stacked(0), at, 1});
  inputs[0] = foldIntoBatch(context, x);
  for (size_t i : {1, 2}) inputs[i] = mergedParameter(context, i);
  inputs[kAxis] = context.constantOf(0);
  Value* y = unfoldFromBatch(context, context.emitSame(inputs)[0]);
  return stackedResults({context.emit("aten::movedim", {y, 1, at})});
}

}  // namespace

RuleRows quantization() {
  return concatenated({
      rowsOf("elementwise", perTensor, {"fake_quantize_per_tensor_affine"}),
      rowsOf("grouped", perChannel, {"fake_quantize_per_channel_affine"}),
  });
}

}  // namespace chorus
