#include "lib/batching/dims.h"
#include "lib/batching/families.h"

namespace chorus {
namespace {

/// The elements of list argument 0, all stacked; nullopt where their ranks differ or are not known.
std::optional<std::vector<Value*>> stackedElements(RuleContext& context, int64_t& rank) {
  if (!context.knowsElements(0)) return std::nullopt;
  const std::vector<Operand> elements = context.elements(0);
  std::vector<Value*> values;
  for (const Operand& element : elements) {
    const auto member_rank = context.memberRank(element);
    if (!member_rank || (!values.empty() && *member_rank != rank)) return std::nullopt;
    rank = *member_rank;
    values.push_back(context.stackedOf(element));
  }
  return values;
}

/// cat, stack: the elements stacked, the dim shifted. stack's dim is of the result.
BatchingRule join(const std::string& op, int64_t extra_rank) {
  return [op, extra_rank](RuleContext& context) -> RuleResult {
    const auto dim = context.constantInt(1);
    if (!dim) return context.decline("computed dim");
    int64_t rank = 0;
    const auto values = stackedElements(context, rank);
    if (!values) return context.decline("tensors of unknown or different ranks");
    return stackedResults(
        {context.emit(op, {context.tensorList(*values), shiftDim(*dim, rank + extra_rank)})});
  };
}

/// hstack, vstack, ...: tensors of rank at least `rank`, joined along `axis`.
BatchingRule joinAlong(int64_t axis, int64_t at_least) {
  return [axis, at_least](RuleContext& context) -> RuleResult {
    int64_t rank = 0;
    const auto values = stackedElements(context, rank);
    if (!values || rank < at_least)
      return context.decline("tensors of unknown, different or low ranks");
    return stackedResults(
        {context.emit("aten::cat", {context.tensorList(*values), shiftDim(axis, rank)})});
  };
}

/// tensor_split(x, indices_or_sections, dim) with numbers.
RuleResult tensorSplit(RuleContext& context) {
  if (context.isTensor(1)) return context.decline("places that are a tensor");
  return dimShift()(context);
}

}  // namespace

RuleRows joining() {
  return concatenated({
      rowsOf("view", join("aten::cat", 0), {"cat", "concat", "concatenate"}),
      rowsOf("view", join("aten::stack", 1), {"stack"}),
      rowsOf("view", joinAlong(1, 2), {"hstack"}),
      rowsOf("view", joinAlong(0, 2), {"vstack"}),
      rowsOf("dim-shift", dimShift(),
             {"chunk", "split", "split_with_sizes", "unbind", "unsafe_chunk", "unsafe_split"}),
      rowsOf("dim-shift", tensorSplit, {"tensor_split"}),
  });
}

}  // namespace chorus
