// How much memory a training step takes, found by recording LibTorch's CPU allocator.
#pragma once

#include <functional>
#include <optional>

#include "chorus/fused_model.h"

namespace chorus {

/// An allocation of `bytes` (0: it ends), in the order in which they happen.
struct AllocationEvent {
  size_t id = 0;  ///< counts allocations
  double bytes = 0;
};

/// What tensors take on this thread while `work` runs. What was there before does not count.
std::vector<AllocationEvent> recordAllocations(const std::function<void()>& work);
/// The most that lives at once.
double peakOf(const std::vector<AllocationEvent>& events);

/// Bytes that a training step of `rows` rows takes at its peak beside the model's tensors and its
/// optimizer's state: batch, activations, gradients, temporaries. Runs steps of few members and few
/// rows on copies (sizes of allocations are affine in both); the fewer, the more `flops`, those of
/// forward for one row of one member. Draws no number of PyTorch's generators. Nothing where the
/// model has no loss or optimizer, or where no example fits it.
std::optional<int64_t> stepBytes(const FusedModel& model, int64_t rows, double flops);

}  // namespace chorus
