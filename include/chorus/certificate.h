// What the prover hands to the checker: data, no code. See docs/architecture.md and
// docs/fusion_contract.md.
//
// Words. A *literal* is a prim::Constant, or a prim::ListConstruct whose elements are all
// prim::Constant. A node is *live* if an output or an update of its graph depends on it. Two
// literals are equal if their keys are:
//
//   None "n", bool "b0" "b1", int "i-5", float "d" and its 64 bits in hex (every NaN: "dnan"),
//   complex "c" and two floats without the d, string "s3:abc", device "vcpu", list "[i1,i2]", tuple
//   "(i1,i2)"
//
// The structural hash does not depend on names, node order or slot order. In terms of T(text) =
// hashText and M(h, w) = mixHash of lib/support/hash.h, M(a, b, c) = M(M(a, b), c), sums mod 2^64,
// mode 0 for train and 1 for eval:
//
// - input i: M(T("input"), i, dtype number, T(sizes as "3,N,"), bound + 1 or 0)
// - slot: M(T("slot"), role, dtype number, T(sizes as "8,3,"), requires_grad, number of names), and
//   of a constant M(that, hashTensor)
// - literal: M(T("literal"), T(key))
// - node: M(T("node"), T(op as "aten::add.Tensor"), number of outputs, operands...); the first two
//   operands of a commutative op in ascending order; its output j: M(node, j)
// - use sum of an input or slot: the sum over its uses by live nodes of M(T("use"), mode, node,
//   index of the operand, 0 for the first two of a commutative op); being updated to v adds
//   M(T("update"), mode, v)
// - graph: M(T("graph"), mode, model outputs...)
// - member: M(T("member"), number of inputs, T(output tree), train graph, eval graph, sum over
//   inputs and slots of M(itself, its use sum)); the tree is written "t." for a tensor, "Tt.t.." a
//   tuple, "Lt.." a list, "Ds1:at.." a dict
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace chorus {

/// Entry of a node of member 0 that has no counterpart: a node that is not live, a literal that
/// member k lacks.
inline constexpr uint32_t kNoNode = 0xffffffff;

/// Member k's graph is member 0's under this renaming. Indices: nodes in graph order (constants
/// included), slots in slot order. Entry i of `nodes` is the node of member k that corresponds to
/// node i of member 0. Live nodes that are no literals, and slots, are mapped one to one; a literal
/// to the *first* equal literal of member k.
struct MemberMap {
  std::vector<uint32_t> train_nodes;
  std::vector<uint32_t> eval_nodes;
  std::vector<uint32_t> slots;
  uint64_t tensor_hash = 0;  ///< M over hashTensor of member k's slots of role Constant, in member
                             ///< 0's slot order, from 0

  bool operator==(const MemberMap&) const = default;
};

/// `members[0]` is the identity (a literal that occurs twice: its first occurrence).
struct Certificate {
  uint64_t structural_hash = 0;
  std::vector<MemberMap> members;

  bool operator==(const Certificate&) const = default;
};

}  // namespace chorus
