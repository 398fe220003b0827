// One graph of all variants.
#pragma once

#include <functional>

#include "lib/partial/outline.h"
#include "lib/partial/slots.h"

namespace chorus::partial {

/// A number that a member has in place of its variant's, by the node of the variant and the
/// operand.
using Numbers = std::function<std::optional<c10::IValue>(const Node* node, size_t operand)>;

/// The graph of a mode, over the slots of `table`: common ops with the numbers of variant `lead`,
/// and a choice for each gap. `numbers` replaces those of variant `lead`. No types; not yet in
/// canonical form.
CanonicalGraph combine(const Outline& all, const SlotTable& table, size_t mode, size_t lead,
                       const Numbers& numbers);

/// Canonical form of a graph whose choices are branches (lowerChoices), with choices again; also of
/// one that comes from a file.
CanonicalGraph canonicalChoices(const std::shared_ptr<Graph>& lowered, const CanonicalGraph& like,
                                const std::vector<InputSpec>& inputs, std::vector<TensorSlot> slots,
                                bool training, int64_t batch, size_t variants);

}  // namespace chorus::partial
