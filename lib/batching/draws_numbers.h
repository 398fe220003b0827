// Which nodes draw random numbers.
#pragma once

#include "chorus/batching_rule.h"

namespace chorus {

/// True where the node draws: each member must then have its own draw, even of a shared operand. In
/// eval mode (a constant False `train` or `training`) nothing is drawn. `row` is the op's rule, or
/// nullptr.
bool drawsNumbers(const Node* node, const RuleRow* row);

}  // namespace chorus
