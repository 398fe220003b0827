// What a model returns in the two modes, as one tree.
#pragma once

#include "chorus/member.h"
#include "lib/import/specialize.h"

namespace chorus {

/// The tree of both modes. Where one mode returns None and the other a tensor, the first gets an
/// empty tensor [0] in that place of its outputs, so that both have equally many. Throws Refused
/// (unsupported) where they differ in another way, or return no tensor at all.
OutputTree bothOutputs(Specialized& train, Specialized& eval, const std::string& file);

}  // namespace chorus
