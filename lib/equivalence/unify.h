// Members that compute the same function of their weights and numbers, but were written in two
// ways: rewrites that are tried where members are not proved as they are.
#pragma once

#include "chorus/member.h"

namespace chorus::equivalence {

/// Batch norms of the train graph whose momentum is a number, or None in a script: in one form for
/// both, of which the numbers vary. The graph is a copy; what does not fit is left as it is.
void unifyMomentum(Member& member);

/// Dropouts of the train graph that stand inside other ops and have p = 0: ops of their own.
void unifyDropout(Member& member);
bool hasIdleDropout(const Member& member);

}  // namespace chorus::equivalence
