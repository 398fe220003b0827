// Hashes of nodes bottom-up, the structural hash of a member (certificate.h), and colours: hashes
// refined by context.
#pragma once

#include <functional>

#include "lib/equivalence/indexed_graph.h"

namespace chorus::equivalence {

/// Per graph and node; 0 for literals, whose hash is that of their key (see wireHash).
using NodeHashes = std::array<std::vector<uint64_t>, 2>;

/// Bottom-up. `slot_leaf(s)` is the hash of slot s, `salt(mode, n)` goes into the hash of node n
/// (0: nothing).
NodeHashes hashNodes(const IndexedMember& member, const std::vector<uint64_t>& slot_leaves,
                     const std::function<uint64_t(size_t, size_t)>& salt = {});

/// Of an operand, under hashes of nodes and slots.
uint64_t wireHash(const IndexedMember& member, size_t mode,
                  const std::vector<uint64_t>& node_hashes,
                  const std::vector<uint64_t>& slot_leaves, const Wire& wire);

uint64_t structuralHash(const IndexedMember& member);

/// Values of equal colour look alike from below and from above; values that correspond have equal
/// colours. Linear: a fixed number of rounds.
struct Colours {
  NodeHashes nodes;
  std::vector<uint64_t> slots;
};

/// `slot_mark`/`node_mark`: what is already known of a slot or node (0: nothing), equal on both
/// sides.
Colours refine(const IndexedMember& member, const std::vector<uint64_t>& slot_marks,
               const NodeHashes& node_marks);

}  // namespace chorus::equivalence
