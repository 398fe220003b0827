#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/resolver.h>

namespace chorus {

/// Puts the script class `__torch__.chorus.GradMode` into the module's compilation unit and returns
/// a resolver for text that says `with GradMode(True):`. Unlike a bare set_grad_enabled, leaving
/// the block by an exception restores the mode.
torch::jit::ResolverPtr gradModeResolver(const torch::jit::Module& module);

}  // namespace chorus
