// Does the fused model do what its members do? N training steps of both, compared.
#pragma once

#include <string>
#include <vector>

#include "chorus/dataset.h"
#include "chorus/fused_model.h"
#include "chorus/member.h"

namespace chorus {

struct VerifyOptions {
  int64_t steps = 1;
  double rtol = 1e-4;  ///< of the tensor's own scale, where the networks run in fp32
  double atol = 1e-6;
  /// What to run, all steps alike; without inputs: random numbers that fit the model.
  Batch example;
  /// Tensors of members that run beside the fused model at once; of one member at least.
  size_t bytes_together = size_t{256} << 20;
};

struct VerifyReport {
  bool checked = false;
  std::string summary;  ///< "outputs, gradients, buffers and updated parameters agree after 1 step
                        ///< (fp64, ...)"
  std::string unchecked;  ///< what could not be compared, and why; "" if all was
  double worst = 0;       ///< largest relative difference seen
};

/// Runs the imported original code of each member (its file is read again) against the fused model,
/// on copies. Random ops draw the same masks on both sides. Draws no number of PyTorch's generators
/// and changes no weight. Throws Refused (internal) naming member and tensor where they disagree.
VerifyReport verify(const FusedModel& model, const std::vector<Member>& members,
                    const VerifyOptions& options);

}  // namespace chorus
