// What a model of --partial holds beyond one of equal members.
#pragma once

#include "tools/chorus-fuse/fusing.h"

namespace chorus {

/// Sets `model.partial`, each member's own numbers of its random nodes, and the proof that each
/// member's part of the graphs is its own graph: one certificate per member, in `model.info`.
/// Throws Refused (internal) where that is not so.
void takePartialParts(FusedModel& model, const PartialParts& parts);

/// Throws Refused (unsupported) for what does not work on packed tensors.
void checkPartialOptimizer(const TrainingOptions& options, const FusedModel& model);

/// Member k's part as it is in the model, with its tensors.
Member ownMember(const FusedModel& model, size_t k);

/// "" where the members' parts of a fused file are these members, by the certificates in it.
std::string checkParts(const FusedModel& model, const std::vector<Member>& members);

/// Lines of the plan.
std::string partialText(const FusedModel& model);

}  // namespace chorus
