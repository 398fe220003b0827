// Numbers that differ between members: an op whose number arguments have become 0-d tensors of the
// member, rewritten into ops that take tensors. Batching then sees ordinary operands: a 0-d tensor
// of the member is [K] when it is stacked.
//
//     leaky_relu(x, 0.1 | 0.2 | 0.3)  ==>  where(x > 0, x, x * s)   with s = [0.1, 0.2, 0.3]
//
// A number never takes part in type promotion as a tensor would: it is cast to the dtype in which
// the op computes (that of its result; f32 for f16 and bf16, as PyTorch's kernels do).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "chorus/member.h"

namespace chorus {

struct VaryingOptions {
  /// Masks are drawn by `chorus::kept` of the runtime; else by rand_like.
  bool counter_based_random = false;
};

/// Replaces `node` (typed, in a member's graph). `numbers`: operand -> 0-d tensor, f64 or i64.
/// Throws Refused (unsupported) naming the op where it has no such form.
void liftVarying(Node* node, const std::map<size_t, Value*>& numbers,
                 const VaryingOptions& options = {});

/// True if ordinary ops compute the op for all members at once. Any other op of kVaryingPolicy runs
/// once per member, with that member's number.
bool hasVaryingForm(const std::string& op);

}  // namespace chorus
