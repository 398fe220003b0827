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

/// The operand is the constant None.
bool isNone(const IndexedGraph& graph, const Wire& wire);

/// C5: `op` has no operand `argument` in the odd member (`missing`) or in the others, where it is
/// `what`.
Finding presenceFinding(const std::string& op, const std::string& argument, const std::string& what,
                        bool missing);

/// C8: `here` ("mul 'other' is parameter 'a'"), of a slot whose partner is `partner`, where the
/// others have `mine`, the partner of `reverse`; "" for what has no partner.
Finding tieFinding(const std::string& here, const std::string& partner, const std::string& reverse,
                   const std::string& mine);

/// C12: names of what only the others have, and of what only the odd member has; not equally many.
Finding slotListFinding(const Member& major, const Member& odd,
                        const std::vector<std::string>& missing,
                        const std::vector<std::string>& extra);

/// "the lstm's hidden_size is 12, elsewhere 16" where the two are weights of a recurrent layer that
/// `reader` is; else "".
std::string recurrentNote(const Node* reader, const TensorSlot& major, const TensorSlot& odd);

/// The argument of that name is a number in a place that may vary.
bool mayVaryBy(const IndexedNode* node, const std::string& name);

/// Arguments that mostly follow from the sizes of tensors, e.g. of zeros and view.
bool isSize(const std::string& argument);

/// Why members must agree on the attribute `name`, of which `literal` is one value.
std::string attributeNote(const std::string& op, const std::string& name,
                          const IndexedNode& literal, bool varies);

/// "parameter 'fc.bias'", "the result of relu (net.py:4)", "the model's input", "[1, 1]".
std::string describe(const IndexedMember& member, size_t mode, const Wire& wire);

/// Of a literal node.
std::string literalText(const IndexedNode& node);

std::string inQuotes(const std::string& name);

}  // namespace chorus::equivalence
