// Differences between two members' parts, in words. The conditions are those of
// docs/fusion_contract.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/equivalence/indexed_graph.h"

namespace chorus::equivalence {

inline constexpr const char* kElsewhere = ", elsewhere ";

struct Finding {
  std::string text;
  std::string condition;
  std::vector<std::string> notes{};
};

/// C1 and C10: what a caller of the model sees.
std::optional<Finding> interfaceFinding(const Member& major, const Member& odd);

/// C6 to C9, of two slots that differ. `reader` says who reads them, e.g. "add 'other'".
Finding slotFinding(const TensorSlot& major, const TensorSlot& odd, const std::string& reader);

/// Why members must agree on the attribute `name`, of which `literal` is one value.
std::string attributeNote(const std::string& name, const IndexedNode& literal);

/// "parameter 'fc.bias'", "the result of relu (net.py:4)", "the model's input", "[1, 1]".
std::string describe(const IndexedMember& member, size_t mode, const Wire& wire);

/// Of a literal node.
std::string literalText(const IndexedNode& node);

std::string inQuotes(const std::string& name);

}  // namespace chorus::equivalence
