// What the rules of x[...] and x[...] = y share.
#pragma once

#include <optional>
#include <vector>

#include "chorus/batching_rule.h"

namespace chorus {

/// The tensors of x[..., i, j, ...] and where they stand.
struct Subscript {
  std::vector<Operand> elements;  ///< None where a whole dim is taken
  std::vector<size_t> places;     ///< of the tensors
  int64_t rank = 0;               ///< of the tensors broadcast together
  bool stacked = false;           ///< one of them is
  bool adjacent = true;
  bool mask = false;  ///< it is one mask, the same for all members; counts as an index of rank 1
};

/// Of the node's list argument i. Nullopt where there is none, where dtypes or ranks are not known,
/// or where a mask gives each member its own sizes.
std::optional<Subscript> subscriptOf(RuleContext& context, size_t i);

/// int64 [K,1,...,1] with `rank` dims behind K: 0, 1, ..., K-1 on the device of `like`.
Value* memberNumbers(RuleContext& context, Value* like, int64_t rank);

/// The index of argument i (member rank 0 or 1), repeated over all dims of the stacked `x` but
/// `axis`, as gather and scatter want it.  [K,L] -> [K,1,..,L,..,1] -> [K,A,..,L,..,B]
Value* indexLike(RuleContext& context, Value* x, size_t i, int64_t axis);

}  // namespace chorus
