// --dump: a member's canonical graphs as text that one can read, and read back.
#pragma once

#include <string>

#include "chorus/member.h"

namespace chorus {

/// Its slots as comments, then "// train" and the train graph, "// -----", "// eval" and the eval
/// graph. Inputs are named like the member's tensors ("layer1_0_conv1_weight"), other values after
/// the op that makes them ("relu", "relu.1", ...); the module that a node
/// came from stands behind it as a comment.
std::string dumpMember(const Member& member);

/// Renames the values of a graph as described above.
void nameValues(CanonicalGraph& graph, const Member& member);

}  // namespace chorus
