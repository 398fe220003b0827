// The bijection between two members.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "chorus/certificate.h"
#include "lib/equivalence/indexed_graph.h"

namespace chorus::equivalence {

/// The map from `a` to `b`, if there is one that sends every slot to the slot of its own name, such
/// a one (tensor_hash is left 0), or nullopt where none is found. What is returned is right: each
/// pair was compared. Where commutative operands are swapped *and* many places look alike, a map
/// may be missed (bounded effort, no backtracking beyond one step); this refuses members, it never
/// accepts wrong ones.
std::optional<MemberMap> match(const IndexedMember& a, const IndexedMember& b);

}  // namespace chorus::equivalence
