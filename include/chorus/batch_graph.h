// The walk that turns a member's canonical graph into the fused one, node by node, by batching
// rules.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "chorus/member.h"

namespace chorus {

/// What became of one node; for the plan and the report.
struct Decision {
  /// Apart: of some members only (chorus-fuse --partial).
  enum class Kind { Shared, Fused, PerMember, Apart };
  std::string op;  ///< "aten::relu"
  Kind kind = Kind::Fused;
  std::string family;  ///< of the rule
  std::string reason;  ///< PerMember: why; Apart: whose
  Place place;
};

struct BatchedGraph {
  std::shared_ptr<Graph>
      graph;  ///< inputs and outputs in the member's order; aten/prim and chorus:: markers
  std::vector<bool> stacked_outputs;
  std::vector<Decision>
      decisions;  ///< one per node of the canonical graph that is not a constant or list
};

/// Batches `graph` (straight-line, typed, pure). `stacked_inputs[i]` says whether graph input i is
/// stacked; at least one tensor input must be. Every output of the result is stacked if
/// `stack_outputs` (shared ones are expanded). `disabled` rules are run per member. `variants`: of
/// a graph with choices (lib/support/choice.h), each member's.
BatchedGraph batchGraph(const Graph& graph, const std::vector<bool>& stacked_inputs,
                        bool stack_outputs, const std::set<std::string>& disabled = {},
                        const std::vector<size_t>& variants = {});

}  // namespace chorus
