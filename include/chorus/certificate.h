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
// A *varying operand* is a number literal ("i" or "d") in a place that varying_policy.h names; it
// may have one value per member. With M(h, w) = mixHash of lib/support/hash.h, a tensor_hash is M
// over hashTensor.
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

/// A varying operand of which the members do not all have the same value.
struct VaryingAttribute {
  uint32_t mode = 0;     ///< 0 train, 1 eval
  uint32_t node = 0;     ///< of member 0
  uint32_t operand = 0;  ///< in schema order
  std::vector<std::string>
      values;  ///< one key per member; of one kind, unless operand 0 is floating

  bool operator==(const VaryingAttribute&) const = default;
};

/// `members[0]` is the identity (a literal that occurs twice: its first occurrence). Places that
/// are not listed in `attributes` and `constants` are the same in all members.
struct Certificate {
  std::vector<MemberMap> members;
  std::vector<VaryingAttribute> attributes;  ///< ascending by mode, node, operand
  std::vector<uint32_t> constants;           ///< ascending: member 0's slots of role Constant whose
                                             ///< elements differ somewhere

  bool operator==(const Certificate&) const = default;
};

}  // namespace chorus
