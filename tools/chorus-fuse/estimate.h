// What a training step of a fused model will take, before anything is spent: work from the types of
// the canonical train graph, memory from a step of few rows and few members.
#pragma once

#include <nlohmann/json.hpp>

#include "chorus/fused_model.h"

namespace chorus {

/// Of all K members. Memory is what tensors take at the peak of a step; kernels may need workspace
/// of their own, the heap has gaps, and data and libraries come on top.
struct Estimate {
  int64_t rows = 0;  ///< of the batch that activations are for
  double forward_flops =
      0;                   ///< two per multiply-add, of one batch; backward takes about twice that
  int64_t parameters = 0;  ///< numbers
  int64_t tensor_bytes = 0;    ///< parameters, buffers, constants
  int64_t gradient_bytes = 0;  ///< of what is trained
  int64_t state_bytes = 0;     ///< of the optimizer
  /// What else a step holds at its peak: batch, activations, temporaries. Where no step could be
  /// tried, only what forward keeps for backward.
  int64_t activation_bytes = 0;
  bool tried = false;

  int64_t peakBytes() const {
    return tensor_bytes + gradient_bytes + state_bytes + activation_bytes;
  }
};

/// Runs a few small steps (see runtime/step_memory.h).
Estimate estimate(const FusedModel& model, int64_t rows);

nlohmann::json toJson(const Estimate& estimate);
/// One line, e.g. "a step of 32 rows: 1.2 GFLOP forward, about 34.1 MB (...)".
std::string toText(const Estimate& estimate);

}  // namespace chorus
