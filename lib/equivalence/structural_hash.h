// Hashes of nodes bottom-up, the structural hash of a member, and colours: hashes refined by
// context.
//
// The structural hash does not depend on names, node order or slot order. In terms of T(text) =
// hashText and M(h, w) = mixHash of lib/support/hash.h, M(a, b, c) = M(M(a, b), c), sums mod 2^64,
// mode 0 for train and 1 for eval. A *varying operand* is a number literal ("i" or "d") in a place
// that varying_policy.h names; its value is no part of the structure, nor are the elements of
// constant tensors. The first two operands of a commutative op, and of any aten::add.Tensor whose
// alpha is a number literal, are *unordered* in the hash.
//
//
// - input i: M(T("input"), i, dtype number, T(sizes as "3,N,"), bound + 1 or 0)
// - slot: M(T("slot"), role, dtype number, T(sizes as "8,3,"), requires_grad, number of names)
// - literal: M(T("literal"), T(key)); of a varying operand T("varying"), and M(that, "i" or "d")
//   where operand 0 is not known to be floating
// - node: M(T("node"), T(op as "aten::add.Tensor"), number of outputs, operands...); unordered
//   operands in ascending order; its output j: M(node, j)
// - use sum of an input or slot: the sum over its uses by live nodes of M(T("use"), mode, node,
//   index of the operand, 0 for unordered ones); being updated to v adds
//   M(T("update"), mode, v)
// - graph: M(T("graph"), mode, model outputs...)
// - member: M(T("member"), number of inputs, T(output tree), train graph, eval graph, sum over
//   inputs and slots of M(itself, its use sum)); the tree is written "t." for a tensor, "Tt.t.." a
//   tuple, "Lt.." a list, "Ds1:at.." a dict
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
