// How many tensors a list holds, as far as the member's graph tells.
#pragma once

#include <optional>

#include "chorus/member.h"

namespace chorus {

/// Of a Tensor[] value: from its ListConstruct, from a ListUnpack that reads it, or from the
/// arguments and sizes of the op that made it (chunk, split, unbind, ...).
std::optional<size_t> listLength(const Value* list);

/// Member rank of each element, where all have one.
std::optional<int64_t> elementRank(const Value* list);

}  // namespace chorus
