// Which tensors a gradient of the outputs comes to, over branches whose choice is open.
#pragma once

#include <set>

#include "chorus/member.h"

namespace chorus {

/// Along which branches: Surely whatever is taken (and however often a loop runs), Maybe along
/// some.
enum class Branches { Surely, Maybe };

/// The values of the outermost block of `canonical` (inputs among them) that have a gradient in
/// PyTorch when the model's outputs have. Updates of buffers do not count.
std::set<const Value*> reachedByGradients(const CanonicalGraph& canonical, Branches branches);

}  // namespace chorus
