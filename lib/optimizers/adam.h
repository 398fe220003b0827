#pragma once

#include "chorus/optimizer.h"

namespace chorus::optimizers {

/// Adam whose weight decay is the TorchScript `decay`: it changes g (coupled) or p (decoupled).
OptimizerDefinition adamLike(const std::string& decay, double weight_decay);

}  // namespace chorus::optimizers
