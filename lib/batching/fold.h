// What many rules share: how K disappears into another dim and comes back.
#pragma once

#include "chorus/batching_rule.h"
#include "lib/batching/families.h"

namespace chorus {

/// Operands in schema order as they are in the fused graph; a None constant where an optional is
/// absent.
std::vector<Value*> operandsAsTheyAre(RuleContext& context);

/// True where operand `i` is stacked (a tensor that is there).
bool isStacked(const RuleContext& context, size_t i);

/// K into N and back.  [K,N,...] -> [(K N),...]   [(K N),...] -> [K,N,...]
Value* foldIntoBatch(RuleContext& context, Value* k_first);
Value* unfoldFromBatch(RuleContext& context, Value* folded);

/// A parameter with channels in dim 0, for an op on merged channels; a shared one is repeated; None
/// stays None. [K,C,...] -> [(K C),...]
Value* mergedParameter(RuleContext& context, size_t i);
/// [(K C)] -> [K,C]
Value* unmergedParameter(RuleContext& context, Value* merged);

/// `count` (a group count, input `i`) for K members: K * count.
Value* timesMembers(RuleContext& context, size_t i);

/// The node's op on merged operand 0, everything else as it is; all outputs unmerged. For ops that
/// treat each channel alone. op(x) -> unmerge(op(merge(x)))
RuleResult onMergedChannels(RuleContext& context);

/// The node's op on operand 0 with K folded into N; all outputs unfolded.
RuleResult onFoldedBatch(RuleContext& context);

/// A row for an op over images of `spatial` dims that treats channels apart. Member ranks: spatial
/// + 2 goes through merged channels; spatial + 1 (no batch) takes K for N. Only operand 0 may be
/// stacked.
RuleRow perChannelRow(const std::string& op, int64_t spatial);

/// Constant number argument `i` equals `number`.
bool isNumber(const RuleContext& context, size_t i, double number);

}  // namespace chorus
