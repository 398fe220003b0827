#include "lib/batching/families.h"
#include "lib/batching/fold.h"
#include "lib/batching/subscript.h"

namespace chorus {
namespace {

// embedding_bag(weight [V,D], indices [L], offsets [B], scale_grad_by_freq, mode, sparse,
//               per_sample_weights? [L], include_last_offset, padding_idx?) -> y [B,D], ...
constexpr size_t kWeight = 0, kIndices = 1, kOffsets = 2, kByFrequency = 3, kMode = 4, kSparse = 5,
                 kWeights = 6, kLast = 7, kPadding = 8;
constexpr double kMaximum = 2;

/// The other results serve the op's own gradient: sizes, and places in a member's table.
bool othersAreUsed(const RuleContext& context) {
  for (size_t i = 1; i < context.node()->outputs().size(); ++i) {
    if (context.node()->output(i)->hasUses()) return true;
  }
  return false;
}

/// x [K,L] moved on by k times `step` in row k.
Value* movedOn(RuleContext& context, Value* x, Value* step) {
  Value* first = context.emit("aten::mul", {memberNumbers(context, x, 1), step});
  return context.emit("aten::add", {x, first});
}

/// int: the row that no bag counts, from the front. `rows`: of a member's table.
Value* paddingRow(RuleContext& context, int64_t padding, Value* rows) {
  if (padding >= 0) return context.constantOf(padding);
  return context.emit("aten::add", {rows, padding});
}

/// One table of all members: rows [(K V),D], bags [(K B)]. A shared table stays as it is.
RuleResult rule(RuleContext& context) {
  const auto frequency = context.constant(kByFrequency), last = context.constant(kLast);
  std::optional<c10::IValue> padding = c10::IValue();
  if (context.has("padding_idx")) padding = context.constant(kPadding);
  if (!frequency || !last || !padding) return context.decline("computed arguments");
  // PyTorch divides by the frequency of other rows than it should: which, depends on the order.
  if (frequency->toBool()) return context.decline("scale_grad_by_freq");
  if (othersAreUsed(context)) return context.decline("results beside the bags");
  if (context.rank(kIndices) != 1) return context.decline("indices of another rank");
  std::vector<Value*> inputs = context.inputs();
  Value* indices = context.stacked(kIndices);
  Value* offsets = context.stacked(kOffsets);
  Value* count = context.emit("aten::size", {indices, 1});
  Value* moved = indices;
  if (isStacked(context, kWeight)) {
    Value* weight = context.operand(kWeight).value;
    Value* rows = context.emit("aten::size", {weight, 1});
    moved = movedByMember(context, indices, 1, rows);
    if (!padding->isNone()) {
      // One padding row for all, member 0's: nobody reads his own.
      inputs[kPadding] = paddingRow(context, padding->toInt(), rows);
      Value* is_padding = context.emit("aten::eq", {indices, inputs[kPadding]});
      moved = context.emit("aten::masked_fill", {moved, is_padding, inputs[kPadding]});
    }
    inputs[kWeight] = foldIntoBatch(context, weight);
  }
  // [K,B+1]: what stands behind a member's last end is in no bag of his: in one more, left out
  // below. But PyTorch's maximum takes it into the last bag.
  const bool ends = last->toBool(), maximum = isNumber(context, kMode, kMaximum);
  if (ends && maximum) offsets = context.emit("aten::slice", {offsets, 1, 0, -1});
  inputs[kIndices] = foldIntoBatch(context, moved);
  inputs[kOffsets] = foldIntoBatch(context, movedOn(context, offsets, count));
  if (!context.isNone(kWeights))
    inputs[kWeights] = foldIntoBatch(context, context.stacked(kWeights));
  inputs[kLast] = context.constantOf(false);
  inputs[kSparse] = context.constantOf(false);  // a sparse gradient cannot be cut into members
  std::vector<Value*> outputs = context.emitSame(inputs);
  outputs[0] = unfoldFromBatch(context, outputs[0]);
  if (ends && !maximum) outputs[0] = context.emit("aten::slice", {outputs[0], 1, 0, -1});
  return stackedResults(outputs);
}

}  // namespace

RuleRows embedding_bag() { return {{"aten::embedding_bag", rule, "gather"}}; }

}  // namespace chorus
