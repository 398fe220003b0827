#include "lib/batching/fold.h"

namespace chorus {
namespace {

/// Number of padded dims; nullopt where the list's length is not known.
std::optional<int64_t> paddedDims(const RuleContext& context) {
  if (const auto known = context.constantInts(1)) return static_cast<int64_t>(known->size()) / 2;
  const Node* list = context.node()->inputs()[1]->node();
  if (list->kind() != c10::prim::ListConstruct) return std::nullopt;
  return static_cast<int64_t>(list->inputs().size()) / 2;
}

// pad(x, pad, mode, value?): reflect, replicate and circular take N and C, or C alone, in front of
// the padded dims; a constant takes any dims, counted from the back.
RuleResult pad(RuleContext& context) {
  const auto mode = context.constant(2);
  if (!mode || !mode->isString()) return context.decline("computed mode");
  if (mode->toStringRef() == "constant") return elementwise(context);
  const auto dims = paddedDims(context);
  if (!dims) return context.decline("computed pad");
  return perChannelRow(context.op(), *dims).rule(context);
}

}  // namespace

RuleRows padding() {
  return {
      {"aten::constant_pad_nd", static_cast<RuleResult (*)(RuleContext&)>(elementwise),
       "elementwise"},
      {"aten::pad", pad, "grouped"},
      perChannelRow("aten::reflection_pad1d", 1),
      perChannelRow("aten::reflection_pad2d", 2),
      perChannelRow("aten::reflection_pad3d", 3),
      perChannelRow("aten::replication_pad1d", 1),
      perChannelRow("aten::replication_pad2d", 2),
      perChannelRow("aten::replication_pad3d", 3),
  };
}

}  // namespace chorus
