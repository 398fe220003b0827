// What the rules of losses share: the reduction of a member's elements.
#pragma once

#include <optional>

#include "chorus/batching_rule.h"

namespace chorus {

/// at::Reduction of the node's argument `reduction`; nullopt where it is computed.
std::optional<int64_t> reductionOf(const RuleContext& context);

/// Mean, sum or neither over the member's elements.  [K,N,...] of member rank `rank` -> [K]
Value* reducedPerMember(RuleContext& context, Value* each, int64_t rank, int64_t reduction);

}  // namespace chorus
