// What the rules of x[...] and x[...] = y share.
#pragma once

#include <optional>
#include <vector>

#include "chorus/batching_rule.h"

namespace chorus {

/// The tensors of x[..., i, j, ...] and where they stand. A mask stands for as many dims as it has,
/// and is as an index of rank 1: of the places where it is true.
struct Subscript {
  std::vector<Operand> elements;  ///< None where a whole dim is taken
  std::vector<size_t> places;     ///< of the tensors
  int64_t dims = 0;               ///< of x that the tensors stand for
  int64_t rank = 0;               ///< of the tensors broadcast together
  bool stacked = false;           ///< one of them is
  bool adjacent = true;
  int64_t masks = 0;
  bool stacked_mask = false;  ///< each member has as many places as its own mask says
};

/// Of the node's list argument i. Nullopt where there is none, or where dtypes or ranks are not
/// known.
std::optional<Subscript> subscriptOf(RuleContext& context, size_t i);

/// The elements, the stacked ones of them with size-1 dims behind K up to the rank of all.
std::vector<Value*> raisedIndices(RuleContext& context, const Subscript& subscript);

/// x[indices]
Value* subscripted(RuleContext& context, Value* x, const std::vector<Value*>& indices);

/// int64 [K,1,...,1] with `rank` dims behind K: 0, 1, ..., K-1 on the device of `like`.
Value* memberNumbers(RuleContext& context, Value* like, int64_t rank);

/// Places in the rows of one table of all members: `index`, of member rank `rank`, moved on by k
/// times `rows`, the rows of a member's own. A place outside of these stays outside of the table,
/// so that it is an error and no other member's row.
Value* movedByMember(RuleContext& context, Value* index, int64_t rank, Value* rows);

/// The index of argument i (member rank 0 or 1), repeated over all dims of the stacked `x` but
/// `axis`, as gather and scatter want it.  [K,L] -> [K,1,..,L,..,1] -> [K,A,..,L,..,B]
Value* indexLike(RuleContext& context, Value* x, size_t i, int64_t axis);

}  // namespace chorus
