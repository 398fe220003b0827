// Traces that were made in different modes (C13).
#pragma once

#include <vector>

#include "chorus/member.h"

namespace chorus {

/// Throws Refused, one message per odd member (at most five, then a count), where some traces were
/// made in train mode and others in eval mode: what a network does only when it trains is missing
/// from the latter.
void requireOneMode(const std::vector<Member>& members);

}  // namespace chorus
