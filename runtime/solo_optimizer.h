// LibTorch's own optimizers, as judges of the fused updates.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>

#include "chorus/optimizer.h"

namespace chorus {

bool hasSoloOptimizer(const OptimizerSpec& spec);

/// With member k's values. Requires hasSoloOptimizer.
std::unique_ptr<torch::optim::Optimizer> soloOptimizer(const OptimizerSpec& spec, size_t k,
                                                       std::vector<at::Tensor> parameters);

}  // namespace chorus
