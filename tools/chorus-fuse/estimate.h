// What a training step of a fused model will take, before anything is spent: from the types of the
// canonical train graph alone.
#pragma once

#include <nlohmann/json.hpp>

#include "chorus/fused_model.h"

namespace chorus {

/// Of all K members. An estimate: kernels may need workspace of their own, and the allocator
/// rounds.
struct Estimate {
  int64_t rows = 0;  ///< of the batch that activations are for
  double forward_flops =
      0;                   ///< two per multiply-add, of one batch; backward takes about twice that
  int64_t parameters = 0;  ///< numbers
  int64_t tensor_bytes = 0;      ///< parameters, buffers, constants
  int64_t gradient_bytes = 0;    ///< of what is trained
  int64_t state_bytes = 0;       ///< of the optimizer
  int64_t activation_bytes = 0;  ///< what forward keeps for backward

  int64_t peakBytes() const {
    return tensor_bytes + gradient_bytes + state_bytes + activation_bytes;
  }
};

Estimate estimate(const FusedModel& model, int64_t rows);

nlohmann::json toJson(const Estimate& estimate);
/// One line, e.g. "a step of 32 rows: 1.2 GFLOP forward, about 34.1 MB (...)".
std::string toText(const Estimate& estimate);

}  // namespace chorus
