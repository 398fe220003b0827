// Tensors that stay one copy for all members.
#pragma once

#include <string>
#include <vector>

#include "chorus/fused_model.h"

namespace chorus {

/// Which slots of members in the same slot order are shared rather than stacked.
///
/// Constants are, where all members have the same. Parameters and buffers are where they are equal
/// to the last bit, frozen (no gradient, not updated by forward), and of use as one copy: some op
/// reads nothing but the model's inputs and what is shared. This needs a frozen parameter: a table
/// of numbers alone is stacked, as are all tensors of one member. What `patterns` (with * and ?)
/// name is shared if it is equal; Refused (error) naming the tensor and a member where it is not,
/// where it is updated, or where no name fits.
std::vector<bool> sharedSlots(const std::vector<Member>& members,
                              const std::vector<std::string>& patterns = {});

/// Keeps one copy of each stacked tensor that `shared` names; a parameter is frozen by it.
void shareSlots(FusedModel& model, const std::vector<bool>& shared);

}  // namespace chorus
