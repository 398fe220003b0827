// Small views of syntax trees, shared by the parts of the code scan.
#pragma once

#include <torch/csrc/jit/frontend/tree_views.h>

#include <string>

#include "chorus/diagnostics.h"

namespace chorus::scan {

/// "a.b.c" for Var and Select chains, else "".
std::string dottedName(const torch::jit::TreeRef& tree);

/// "__torch__.x.___torch_mangle_3.C" -> "__torch__.x.C"
std::string withoutMangling(const std::string& name);

/// The class through which a fused file switches the grad mode.
bool isFusedGradMode(const std::string& name);

/// "PATH: code/__torch__/net.py:12: error: TEXT", with the line.
Refused refusedAt(const std::string& path, const torch::jit::SourceRange& range, std::string text);

}  // namespace chorus::scan
