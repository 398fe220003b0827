// Nodes and slots of two members, in cells of those that look alike: split until each cell has one
// of either member.
#pragma once

#include <optional>
#include <utility>

#include "lib/equivalence/structural_hash.h"

namespace chorus::equivalence {

/// Cells as colours of `a` and of `b`: what corresponds has the same colour, and no two of one
/// member that are live have. Where several places look alike a pair is chosen (of equal names
/// before others) and its consequences are drawn by splitting cells, both members' at once; a
/// choice that leaves a cell with more of one than of the other is taken back and another is tried,
/// `kTries` times in all. Nothing if that was in vain: mostly, because the members are not equal. A
/// map by these colours still has to be checked pair by pair. Time: O(m log n) for m operands, and
/// as much for each vain choice.
std::optional<std::pair<Colours, Colours>> splitIntoPairs(const IndexedMember& a,
                                                          const IndexedMember& b);

}  // namespace chorus::equivalence
