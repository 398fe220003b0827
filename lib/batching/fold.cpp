#include "lib/batching/fold.h"

namespace chorus {

bool isStacked(const RuleContext& context, size_t i) {
  return !context.isNone(i) && context.operand(i).stacked;
}

Value* foldIntoBatch(RuleContext& context, Value* k_first) {
  return context.emit("aten::flatten", {k_first, 0, 1});  // [K,N,...] -> [(K N),...]
}

Value* unfoldFromBatch(RuleContext& context, Value* folded) {
  Value* sizes = context.intList({context.memberCount(), context.constantOf(-1)});
  return context.emit("aten::unflatten", {folded, 0, sizes});  // [(K N),...] -> [K,N,...]
}

Value* mergedParameter(RuleContext& context, size_t i) {
  if (context.isNone(i)) return context.constantOf(c10::IValue());
  return foldIntoBatch(context, context.stacked(i));  // [K,C,...] -> [(K C),...]
}

Value* unmergedParameter(RuleContext& context, Value* merged) {
  return unfoldFromBatch(context, merged);  // [(K C)] -> [K,C]
}

Value* timesMembers(RuleContext& context, size_t i) {
  if (context.constantInt(i) == 1) return context.memberCount();
  return context.emit("aten::mul", {context.operand(i).value, context.memberCount()});
}

RuleResult onMergedChannels(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = context.merge(context.stacked(0));
  std::vector<Value*> outputs = context.emitSame(inputs);
  for (Value*& output : outputs) output = context.unmerge(output);
  return stackedResults(outputs);
}

RuleResult onFoldedBatch(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = foldIntoBatch(context, context.stacked(0));
  std::vector<Value*> outputs = context.emitSame(inputs);
  for (Value*& output : outputs) output = unfoldFromBatch(context, output);
  return stackedResults(outputs);
}

RuleRow perChannelRow(const std::string& op, int64_t spatial) {
  const auto rule = [spatial](RuleContext& context) -> RuleResult {
    for (size_t i = 1; i < context.size(); ++i) {
      if (isStacked(context, i)) return std::nullopt;
    }
    if (context.rank(0) == spatial + 2) return onMergedChannels(context);
    if (context.rank(0) != spatial + 1) return std::nullopt;
    std::vector<Value*> inputs = context.inputs();
    inputs[0] = context.stacked(0);  // [K,C,...]: K takes the place of N
    return stackedResults(context.emitSame(inputs));
  };
  return {op, rule, "grouped"};
}

bool isNumber(const RuleContext& context, size_t i, double number) {
  const auto constant = context.constant(i);
  return constant && constant->isScalar() && constant->toScalar().toDouble() == number;
}

}  // namespace chorus
