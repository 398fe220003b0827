// Numbers that a trace wrote down as tensors.
#pragma once

#include "chorus/member.h"

namespace chorus {

/// `x * 0.3` is traced as mul(x, tensor(0.3)) and scripted as mul(x, 0.3). Both graphs of the
/// member get the latter where it computes the same: x floating, and the result of x's dtype.
/// Constants that nothing reads then are no slots any more.
void writeTraceNumbers(Member& member);

/// A warning where the trace of a BatchNorm(momentum=None) holds the factor of one batch: 1 over
/// the number of batches seen when it was traced.
void warnOfTracedAverages(Member& member);

}  // namespace chorus
