// The numbers that members give their random nodes.
#pragma once

#include <vector>

#include "chorus/fused_model.h"

namespace chorus {

/// Per node of the graph, in order (blocks before the node they belong to): its number among the
/// random ones, or -1.
std::vector<int64_t> randomNumbers(const Graph& graph);

/// For FusedModel::random_nodes, from a checked certificate: entry i of member k is the place,
/// among the random nodes of member k's own graph, of the node that corresponds to the i-th of
/// member 0. Empty where all members number them alike.
std::vector<RandomNodes> randomNodes(const std::vector<Member>& members,
                                     const Certificate& certificate);

}  // namespace chorus
