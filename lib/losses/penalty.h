#pragma once

#include "chorus/loss.h"

namespace chorus::losses {

/// A term that sums `size`, a method of Tensor without arguments ("abs"), of all trainable numbers
/// of a member.
LossDefinition penalty(const std::string& name, const std::string& summary,
                       const std::string& size);

}  // namespace chorus::losses
