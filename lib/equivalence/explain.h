// Why two members do not match, in the user's words.
#pragma once

#include "lib/equivalence/indexed_graph.h"

namespace chorus::equivalence {

/// What is wrong with `odd` as against `major`; conditions are those of docs/fusion_contract.md.
struct Difference {
  std::string text;       ///< e.g. "conv2d 'stride' is [2, 2], elsewhere [1, 1]"
  std::string condition;  ///< e.g. "C4"
  Place odd_place;        ///< with the odd member's file
  Place major_place;
  std::vector<std::string> notes;
};

/// The first difference along the work list: inputs, outputs, then breadth first from the outputs,
/// train before eval, then updates and unused slots. Shapes of tensors come last, since they often
/// follow from something else.
Difference firstDifference(const IndexedMember& major, const IndexedMember& odd);

/// One message per group of odd members, at most five, then a count. `groups[0]` is the majority;
/// each group lists its members in ascending order, the other groups come by their first member.
std::vector<Message> explainGroups(const std::vector<Member>& members,
                                   const std::vector<std::vector<size_t>>& groups);

/// The op as users know it: "conv2d", "batch_norm", "relu".
std::string userName(const IndexedGraph& graph, const IndexedMember& member,
                     const IndexedNode& node);

/// A constant as Python prints it: "[2, 2]", "0.1", "True", "None", "'zeros'".
std::string pythonText(const c10::IValue& value);

}  // namespace chorus::equivalence
