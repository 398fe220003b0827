// Drawing a member's weights anew, as PyTorch's layers do when they are made.
#pragma once

#include <cstdint>
#include <vector>

#include "chorus/member.h"

namespace chorus {

/// New values for `member.slots`, in order: bit for bit what `torch.manual_seed(seed)` and then
/// `reset_parameters()` over `modules()` give on the CPU. Buffers of normalisation layers are
/// reset, other buffers and constants keep their values. Throws Refused (unsupported) naming
/// parameters whose layer is not known. `remarks` gets a message for each tensor whose spread in
/// the file differs from the layer's default by over 20 %.
std::vector<at::Tensor> initialise(const Member& member, uint64_t seed,
                                   std::vector<Message>* remarks = nullptr);

}  // namespace chorus
