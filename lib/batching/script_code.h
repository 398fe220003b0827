// Rules that are easier to read as TorchScript than as a list of emits.
#pragma once

#include <string>
#include <vector>

#include "chorus/batching_rule.h"

namespace chorus {

/// Inserts the body of the function `name` of `source` (its calls inlined) into the fused graph.
/// Returns its results; a tuple is taken apart. Inputs in the order of the function's parameters.
std::vector<Value*> emitScript(RuleContext& context, const std::string& source,
                               const std::string& name, const std::vector<Value*>& inputs);

}  // namespace chorus
