#include "lib/batching/families.h"
#include "lib/batching/fold.h"
#include "lib/batching/subscript.h"

namespace chorus {
namespace {

// embedding_bag(weight [V,D], indices [L], offsets [B], scale_grad_by_freq, mode, sparse,
//               per_sample_weights? [L], include_last_offset, padding_idx?) -> y [B,D], ...
constexpr size_t kWeight = 0, kIndices = 1, kOffsets = 2, kByFrequency = 3, kSparse = 5,
                 kWeights = 6, kLast = 7, kPadding = 8;

/// The other results serve the op's own gradient: sizes, and places in a member's table.
bool othersAreUsed(const RuleContext& context) {
  for (size_t i = 1; i < context.node()->outputs().size(); ++i) {
    if (context.node()->output(i)->hasUses()) return true;
  }
  return false;
}

/// x [K,L] moved on by k times `step` in row k, as one row.  [K,L] -> [(K L)]
Value* movedOn(RuleContext& context, Value* x, Value* step) {
  Value* first = context.emit("aten::mul", {memberNumbers(context, x, 1), step});
  return foldIntoBatch(context, context.emit("aten::add", {x, first}));
}

/// One table of all members: rows [(K V),D], bags [(K B)].
RuleResult rule(RuleContext& context) {
  const auto frequency = context.constant(kByFrequency), last = context.constant(kLast);
  std::optional<c10::IValue> padding = c10::IValue();
  if (context.has("padding_idx")) padding = context.constant(kPadding);
  if (!frequency || !last || !padding) return context.decline("computed arguments");
  if (!padding->isNone()) return context.decline("padding_idx");
  // PyTorch divides by the frequency of other rows than it should: which, depends on the order.
  if (frequency->toBool()) return context.decline("scale_grad_by_freq");
  if (othersAreUsed(context)) return context.decline("results beside the bags");
  if (context.rank(kIndices) != 1) return context.decline("indices of another rank");
  std::vector<Value*> inputs = context.inputs();
  Value* weight = context.stacked(kWeight);
  Value* indices = context.stacked(kIndices);
  Value* offsets = context.stacked(kOffsets);
  if (last->toBool()) {  // [K,B+1] -> [K,B]: the end of a member's last bag is the next one's begin
    offsets = context.emit("aten::slice", {offsets, 1, 0, -1});
  }
  inputs[kWeight] = foldIntoBatch(context, weight);
  inputs[kIndices] = movedOn(context, indices, context.emit("aten::size", {weight, 1}));
  inputs[kOffsets] = movedOn(context, offsets, context.emit("aten::size", {indices, 1}));
  if (!context.isNone(kWeights))
    inputs[kWeights] = foldIntoBatch(context, context.stacked(kWeights));
  inputs[kLast] = context.constantOf(false);
  inputs[kSparse] = context.constantOf(false);  // a sparse gradient cannot be cut into members
  std::vector<Value*> outputs = context.emitSame(inputs);
  outputs[0] = unfoldFromBatch(context, outputs[0]);
  return stackedResults(outputs);
}

}  // namespace

RuleRows embedding_bag() { return {{"aten::embedding_bag", rule, "gather"}}; }

}  // namespace chorus
