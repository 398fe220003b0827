// Two fused models whose members differ in numbers or constant tensors, made ready to be one.
#pragma once

#include "chorus/fused_model.h"

namespace chorus {

/// Member k as it was before fusing: its tensors (views) in the prototype's slots, its own numbers
/// in copies of the graphs.
Member unfusedMember(const FusedModel& model, size_t k);

/// Where one of the two has a number or a constant per member, or they have different ones, both
/// get one per member; their graphs are the same afterwards. Does nothing where the structures
/// differ.
void alignVarying(FusedModel& a, FusedModel& b);

}  // namespace chorus
