// `with torch.autocast(...)` of scripted code, as casts.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <memory>

namespace chorus {

/// Replaces the autocast regions of `graph` (calls inlined) by what they mean: casts in front of
/// the ops that LibTorch's lists name, aten::_autocast_to_reduced_precision(x, cuda, cpu,
/// dtypes...) and aten::_autocast_to_full_precision(x, cuda, cpu), as LibTorch does when it runs
/// the code. False where it has none; nothing is changed then. Refused where a region's arguments
/// are not constants.
bool makeAutocastExplicit(std::shared_ptr<torch::jit::Graph>& graph);

}  // namespace chorus
