// Families of batching rules: a file of rules/ is mostly a table of names in one of these.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "chorus/batching_rule.h"

namespace chorus {

/// One tensor (argument 0), every element by itself: the same op on [K,...].
RuleResult elementwise(RuleContext& context);

/// Tensors that broadcast together: each stacked one is raised to the largest member rank (size-1
/// dims behind K), shared ones broadcast from the right as they are.  x [K,C], y [N,C] -> x [K,1,C]
/// op y [N,C] A stacked tensor of member rank 0 is cast to the dtype that the member's operands
/// have together, since as [K] it would begin to take part in type promotion.
RuleResult broadcasting(RuleContext& context);

/// broadcasting() of these arguments only; `promoting` are those whose dtypes meet. Returns the
/// inputs for emitSame, or nullopt where a dtype that matters is not known.
std::optional<std::vector<Value*>> alignedInputs(RuleContext& context,
                                                 const std::vector<size_t>& tensors,
                                                 const std::vector<size_t>& promoting);
/// Largest member rank of these arguments; None counts 0.
int64_t largestRank(const RuleContext& context, const std::vector<size_t>& tensors);

/// One tensor (argument 0) and axis arguments with these names (an int, or a list of ints):
/// wrapped, then shifted by one. `extra_rank` 1: the axes are of the result, which has one dim more
/// (unsqueeze, diag_embed). A member tensor of rank 0 is given one dim, and the results are
/// flattened to [K].
BatchingRule dimShift(std::vector<std::string> axes = {"dim"}, int64_t extra_rank = 0);

/// Reads dtype, device or sizes of argument 0, no value: the op as it is, the result shared.
RuleResult readsNoValue(RuleContext& context);

/// The op on the stacked form of every tensor argument, nothing else.
RuleResult allOperandsStacked(RuleContext& context);

/// The inputs for emitSame, with a memory format of the member's rank (channels_last) taken out;
/// nullopt where it is computed. Values do not depend on it.
std::optional<std::vector<Value*>> withoutMemoryFormat(RuleContext& context);

/// All of them stacked: the usual end of a rule.
RuleResult stackedResults(const std::vector<Value*>& values);

/// One row per name ("relu" is "aten::relu").
RuleRows rowsOf(const std::string& family, const BatchingRule& rule,
                std::initializer_list<const char*> names);
RuleRows concatenated(std::initializer_list<RuleRows> parts);

/// A stacked tensor with at least one member dim.  [K] -> [K,1]
Value* withDim(RuleContext& context, size_t i);
/// At least `rank` dims behind K, placed as atleast_1d, _2d and _3d do; `own`: the member rank of
/// the stacked `x`.
Value* withDims(RuleContext& context, Value* x, int64_t own, int64_t rank);
/// The results of an op on withDim() operands, as the member's ranks want them.  [K,1] or [K] ->
/// [K] where rank 0
RuleResult restoreRanks(RuleContext& context, const std::vector<Value*>& results);

}  // namespace chorus
