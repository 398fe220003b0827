// The numbers that members give their random nodes.
#pragma once

#include <vector>

#include "chorus/fused_model.h"

namespace chorus {

/// Per node of the graph, in order (blocks before the node they belong to): its number among the
/// random ones, or -1.
std::vector<int64_t> randomNumbers(const Graph& graph);

/// The nodes of the model's prototype that draw in some member, in order. A dropout whose p is each
/// member's own counts, also where it is 0 in member 0.
std::vector<const Node*> drawingNodes(const FusedModel& model, bool eval);

/// For FusedModel::random_nodes, from a checked certificate: entry i of member k is the place,
/// among the random nodes of member k's own graph, of the node that corresponds to the i-th that
/// draws in some member. Where it does not draw in member k (p = 0), numbers that follow all
/// others. Empty where all members number them alike.
std::vector<RandomNodes> randomNodes(const std::vector<Member>& members,
                                     const Certificate& certificate);

/// Which ops of the two graphs draw: to be compared after their numbers have become varying ones.
struct DrawingOps {
  std::vector<size_t> train, eval;  ///< counted as VaryingNumber::Place counts them
};
DrawingOps drawingOps(const FusedModel& model);

/// `model.random_nodes` anew, where other ops draw now than did `before`.
void renumberRandomNodes(FusedModel& model, const DrawingOps& before);

}  // namespace chorus
