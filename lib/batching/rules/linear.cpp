#include "chorus/batching_rule.h"
#include "lib/batching/fold.h"
#include "lib/support/fault.h"

namespace chorus {
namespace {

// aten::linear(input, weight, bias?)
constexpr size_t kInput = 0, kWeight = 1, kBias = 2;

// One weight for all: the op works on the last dim, whatever stands before it.
RuleResult sharedWeight(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  const bool stacked_bias = isStacked(context, kBias);
  if (stacked_bias) inputs[kBias] = context.constantOf(c10::IValue());
  Value* y = context.emitSame(inputs)[0];
  // y [N,O] or [K,N,O], bias [K,O] -> [K,1,O]
  if (stacked_bias)
    y = context.emit("aten::add", {y, context.stackedAtRank(kBias, context.rank(kInput))});
  return stackedResults({y});
}

// x [K,M,I], W [K,O,I], b [K,O] or [O] -> [K,M,O]
Value* product(RuleContext& context, Value* x) {
  Value* weight = context.stacked(kWeight);
  // [K,O,I] -> [K,I,O]
  if (!fault("weight_not_transposed")) weight = context.emit("aten::transpose", {weight, 1, 2});
  if (context.isNone(kBias)) return context.emit("aten::bmm", {x, weight});
  Value* bias = context.operand(kBias).value;
  if (isStacked(context, kBias))
    bias = context.emit("aten::unsqueeze", {bias, 1});  // [K,O] -> [K,1,O]
  return context.emit("aten::baddbmm", {bias, x, weight});
}

RuleResult rule(RuleContext& context) {
  if (context.rank(kWeight) != 2) return std::nullopt;
  if (!isStacked(context, kWeight)) return sharedWeight(context);
  const int64_t rank = context.rank(kInput);
  Value* x = context.stacked(kInput);
  if (rank == 2) return stackedResults({product(context, x)});
  if (rank == 1) {
    Value* y = product(context, context.emit("aten::unsqueeze", {x, 1}));  // [K,I] -> [K,1,I]
    return stackedResults({context.emit("aten::squeeze", {y, 1})});        // [K,1,O] -> [K,O]
  }
  std::vector<Value*> sizes;
  for (int64_t d = 1; d < rank; ++d) sizes.push_back(context.emit("aten::size", {x, d}));
  Value* y =
      product(context, context.emit("aten::flatten", {x, 1, -2}));  // [K,N,T,I] -> [K,(N T),I]
  // [K,(N T),O] -> [K,N,T,O]
  return stackedResults({context.emit("aten::unflatten", {y, 1, context.intList(sizes)})});
}

}  // namespace

RuleRows linear() { return {{"aten::linear", rule, "contraction"}}; }

}  // namespace chorus
