// --replicate K: one member, K copies.
#pragma once

#include "chorus/member.h"
#include "tools/chorus-fuse/options.h"

namespace chorus {

/// K copies named NAME.0 ...: with equal weights (and a remark), or initialised anew from K seeds.
std::vector<Member> replicate(const Member& member, const FuseOptions& options);

}  // namespace chorus
