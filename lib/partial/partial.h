// chorus-fuse --partial: members that differ in places, made into members that are alike.
#pragma once

#include <string>
#include <vector>

#include "chorus/equivalence.h"
#include "chorus/fused_model.h"

namespace chorus {

struct Combined {
  /// One per member, all of one graph with choices between the variants, over common and own slots;
  /// each with its own tensors and numbers. The prover takes them like any members.
  std::vector<Member> members;
  std::vector<PartialMember> partial;  ///< where each member's own tensors went
  size_t variants = 0;
  // For the plan.
  size_t common_ops = 0;          ///< of the train graph, that compute something
  std::vector<size_t> apart_ops;  ///< the same, per variant
  double saved = 0, spent = 0;    ///< estimated microseconds of a step
  std::vector<std::string> notes;
};

/// Throws Refused (error) where inputs or results differ or nothing that is worth fusing is common.
/// `groups`: the members proved equal, at least two groups of them.
Combined combineMembers(const std::vector<Member>& members, const std::vector<ProvedGroup>& groups);

}  // namespace chorus
