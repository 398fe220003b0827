// The bijection between two members.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "chorus/certificate.h"
#include "lib/equivalence/indexed_graph.h"

namespace chorus::equivalence {

/// Where member 0's graph has numbers that may vary: mode, node, operand.
struct VaryingPlace {
  size_t mode;
  uint32_t node;
  uint32_t operand;
};

/// The places of live nodes, ascending.
std::vector<VaryingPlace> varyingPlaces(const IndexedMember& member);

/// The keys that `b` has in the places of another member, under the map from it to `b`.
std::vector<std::string> varyingValues(const IndexedMember& b, const MemberMap& map,
                                       const std::vector<VaryingPlace>& places);

/// The map from `a` to `b`, if there is one that sends every slot to the slot of its own name, such
/// a one (tensor_hash is left 0), or nullopt where none is found. What is returned is right: each
/// pair was compared. A map may be missed where places look alike that are not interchangeable (see
/// partition.h, whose effort is bounded); this refuses members, it never accepts wrong ones.
std::optional<MemberMap> match(const IndexedMember& a, const IndexedMember& b);

}  // namespace chorus::equivalence
