#include "lib/batching/families.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

// conv_tbc(x [T,N,C], weight [L,C,O], bias [O], pad) -> [T',N,O]
constexpr size_t kInput = 0, kWeight = 1, kBias = 2, kPad = 3;

/// One weight for all: K into N.  [K,T,N,C] -> [T,(K N),C]
RuleResult sharedWeight(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  Value* x = context.emit("aten::movedim", {context.stacked(kInput), 0, 1});
  inputs[kInput] = context.emit("aten::flatten", {x, 1, 2});
  Value* sizes = context.intList({context.memberCount(), context.constantOf(-1)});
  Value* y = context.emit("aten::unflatten", {context.emitSame(inputs)[0], 1, sizes});
  return stackedResults({context.emit("aten::movedim", {y, 1, 0})});
}

/// A convolution over the last dim with a group per member.
RuleResult rule(RuleContext& context) {
  if (!isStacked(context, kWeight) && !isStacked(context, kBias)) return sharedWeight(context);
  using Dims = std::vector<int64_t>;
  // [K,T,N,C] -> [N,K,C,T] -> [N,(K C),T]
  Value* x = context.emit("aten::permute", {context.stacked(kInput), Dims{2, 0, 3, 1}});
  x = context.emit("aten::flatten", {x, 1, 2});
  // [K,L,C,O] -> [K,O,C,L] -> [(K O),C,L]
  Value* weight = context.emit("aten::permute", {context.stacked(kWeight), Dims{0, 3, 2, 1}});
  weight = context.emit("aten::flatten", {weight, 0, 1});
  Value* pad = context.intList({context.operand(kPad).value});
  Value* y = context.emit("aten::conv1d", {x, weight, mergedParameter(context, kBias), 1, pad, 1,
                                           context.memberCount()});
  // [N,(K O),T'] -> [N,K,O,T'] -> [K,T',N,O]
  Value* sizes = context.intList({context.memberCount(), context.constantOf(-1)});
  y = context.emit("aten::unflatten", {y, 1, sizes});
  return stackedResults({context.emit("aten::permute", {y, Dims{1, 3, 0, 2}})});
}

}  // namespace

RuleRows conv_tbc() { return rowsOf("grouped", rule, {"conv_tbc"}); }

}  // namespace chorus
