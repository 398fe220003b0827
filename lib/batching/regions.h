// What has to run once per member because a member's own data decide: shapes (`x[mask]`), numbers
// (`.item()`), branches. Such values live inside a *region* only, a set of nodes that runs in one
// loop over K and that grows until its results have one shape again.
#pragma once

#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "chorus/member.h"

namespace chorus {

/// Per value of a member's graph, also inside blocks.
struct Dependence {
  std::unordered_set<const Value*> stacked;  ///< differs between members (or may)
  /// A tensor whose sizes may differ between members, or a number that may.
  std::unordered_set<const Value*> ragged;
  std::unordered_set<const Node*> touched;  ///< reads or makes something ragged
};

Dependence dependenceOf(const Graph& graph, const std::vector<bool>& stacked_inputs);

/// Nodes that are emitted together.
struct Region {
  std::vector<const Node*> nodes;  ///< in order
  std::string reason;              ///< why they run per member; "": one node that need not
};

/// The block's nodes in an order in which each comes behind what it reads, regions together.
std::vector<Region> stepsOf(const torch::jit::Block& block, const Dependence& dependence);

/// Values from outside that `node` reads, also from inside its blocks; in order, with repeats.
std::vector<const Value*> valuesRead(const Node* node);

/// Values that the model's outputs depend on, also through branches and loops.
std::set<const Value*> readByOutputs(const CanonicalGraph& canonical);

}  // namespace chorus
