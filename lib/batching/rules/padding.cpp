#include "lib/batching/families.h"

namespace chorus {
namespace {

/// Number of sizes in the pad list, two per padded dim.
std::optional<int64_t> padCount(const RuleContext& context) {
  if (const auto known = context.constantInts(1)) return static_cast<int64_t>(known->size());
  const Node* list = context.node()->inputs()[1]->node();
  if (list->kind() != c10::prim::ListConstruct) return std::nullopt;
  return static_cast<int64_t>(list->inputs().size());
}

/// Padding with the tensor's own values takes the padded dims and one or two in front of them.
/// unbatched: [K,C,W] as it is; batched: [K,N,C,W] -> [(K N),C,W] and back.
RuleResult withOwnValues(RuleContext& context) {
  const auto count = padCount(context);
  if (!count) return context.decline("computed pad");
  const int64_t in_front = context.rank(0) - *count / 2;
  if (in_front == 1) return elementwise(context);
  if (in_front != 2) return context.decline("a rank that the op does not take");
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = context.emit("aten::flatten", {inputs[0], 0, 1});
  Value* padded = context.emitSame(inputs).front();
  Value* sizes = context.intList({context.memberCount(), context.constantOf(-1)});
  return stackedResults({context.emit("aten::unflatten", {padded, 0, sizes})});
}

RuleResult pad(RuleContext& context) {
  const auto mode = context.constant(context.indexOf("mode"));
  if (!mode || !mode->isString()) return context.decline("computed mode");
  return mode->toStringRef() == "constant" ? elementwise(context) : withOwnValues(context);
}

}  // namespace

RuleRows padding() {
  return concatenated({
      rowsOf("fold-into-N", pad, {"pad"}),
      rowsOf("elementwise", static_cast<RuleResult (*)(RuleContext&)>(elementwise),
             {"constant_pad_nd"}),
      rowsOf("fold-into-N", withOwnValues,
             {"reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
              "replication_pad2d", "replication_pad3d"}),
  });
}

}  // namespace chorus
