// A canonical graph as tables: who reads what, by index. Everything the prover does walks these,
// never recursively.
#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chorus/member.h"

namespace chorus::equivalence {

/// Where an operand comes from.
struct Wire {
  enum class Kind : uint8_t { Input, Slot, Literal, Node };
  Kind kind = Kind::Input;
  uint32_t index = 0;   ///< of the model input, slot or node
  uint32_t output = 0;  ///< of the node
  bool operator==(const Wire&) const = default;
};

struct IndexedNode {
  const Node* node = nullptr;
  bool live = false;
  bool literal = false;
  bool commutative = false;  ///< operands 0 and 1 may be swapped
  bool unordered = false;    ///< the hash does not tell operands 0 and 1 apart
  bool floating = false;     ///< operand 0 is a floating tensor
  std::string label;         ///< "aten::add.Tensor"; of a literal its key (see certificate.h)
  uint64_t label_hash = 0;
  std::vector<Wire> operands;  ///< of a literal: none
  std::vector<char> varying;   ///< per operand: a number that may differ between members
};

struct Use {
  uint32_t node = 0;
  uint32_t operand = 0;
};

struct IndexedGraph {
  std::vector<IndexedNode> nodes;                ///< in graph order
  std::vector<Wire> outputs;                     ///< of the model
  std::unordered_map<uint32_t, Wire> update_of;  ///< slot -> its new value
};

/// Train and eval, in this order, over one list of slots.
inline constexpr std::array<const char*, 2> kModes = {"train", "eval"};

struct IndexedMember {
  const Member* member = nullptr;
  std::array<IndexedGraph, 2> graphs;
  std::vector<uint64_t> slot_leaves;
  std::vector<char> slot_used;  ///< by a live node, an output, or an update
};

/// Throws Refused (internal error naming the member) where a graph is not canonical.
IndexedMember indexMember(const Member& member);

/// Two literals in the same place of corresponding nodes that differ, and may: numbers of one kind,
/// or of any where the op works on a floating tensor.
bool mayVary(const IndexedNode& a, const IndexedNode& b, size_t operand, const std::string& label_a,
             const std::string& label_b);

/// The key of a constant (see certificate.h), or nullopt where `value` is of a kind that no
/// canonical graph has.
std::optional<std::string> literalKey(const c10::IValue& value);

}  // namespace chorus::equivalence
