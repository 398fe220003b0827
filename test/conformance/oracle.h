// The oracle of the batching rules: slice k of the fused op is what the op computes on member k's
// operands.
#pragma once

#include <string>
#include <vector>

#include "test/conformance/sample.h"

namespace chorus::conformance {

/// Every violation by this sample, one line each (at most a few): for every stacked/shared choice
/// of the tensors and K in {1,2,3,4}, also with operands that are not contiguous, another batch
/// size and the rule switched off,
/// - results: forward and gradient of every floating operand, dtypes, sizes;
/// - laws: permuting members permutes the results; what one member holds, even NaN, leaves the
/// others bit-identical;
/// - a result is marked shared only if no operand is stacked;
/// - the rule was used, unless the sample says that it declines.
std::vector<std::string> violations(const Sample& sample);

}  // namespace chorus::conformance
