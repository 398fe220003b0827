// A variant's canonical graph as a sequence of ops that can be laid beside another's.
#pragma once

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "chorus/member.h"

namespace chorus::partial {

/// What counts of a slot where two are to be one.
struct SlotTraits {
  bool trains = false;  ///< requires a gradient, and the train graph's outputs depend on it
  std::array<bool, 2> updated{};  ///< by the train graph, by the eval graph
  std::string text;               ///< all that two slots of one stacked tensor have in common
};

/// An op of the graph; literals are none.
struct Item {
  const Node* node = nullptr;
  std::vector<const Value*> reads;  ///< operands, then what its blocks read
  uint64_t signature = 0;           ///< equal ones may be one op for all; 0: like nothing else
  bool loose = false;  ///< gives numbers and lists only: may be computed again wherever it is read
};

struct Sequence {
  const Member* member = nullptr;
  const CanonicalGraph* canonical = nullptr;
  std::vector<Item> items;  ///< depth first from the outputs, operands in their order
  std::unordered_map<const Node*, size_t> index;
  std::unordered_map<const Value*, std::string> literals;  ///< value -> key (chorus/certificate.h)

  bool isInput(const Value* value) const { return value->node() == canonical->graph->param_node(); }
  /// Number of the slot that `value` is, if it is one.
  std::optional<size_t> slotOf(const Value* value) const {
    if (!isInput(value) || value->offset() < canonical->n_inputs) return std::nullopt;
    return value->offset() - canonical->n_inputs;
  }
  /// The new value of a slot, or nullptr.
  const Value* updateOf(size_t slot) const;
};

std::vector<SlotTraits> slotTraits(const Member& member);

/// Train and eval.
std::array<Sequence, 2> sequencesOf(const Member& member, const std::vector<SlotTraits>& traits);

/// Pairs (i, j), ascending in both: a longest common subsequence of the signatures. Refuses
/// (error) sequences that have too little in common.
std::vector<std::pair<size_t, size_t>> longestCommon(const Sequence& a, const Sequence& b);

/// dtype and sizes of a tensor's type.
bool sameShape(const Value* a, const Value* b);

}  // namespace chorus::partial
