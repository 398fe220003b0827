// The tensors of a partly fused model: which slots the variants' own become.
#pragma once

#include "lib/partial/outline.h"

namespace chorus::partial {

/// A slot of the fused model.
struct FusedSlot {
  TensorSlot slot;  ///< no value
  SlotTraits traits;
  std::vector<int64_t> sizes;             ///< of one member
  bool packed = false;                    ///< a row of numbers, [P]
  std::vector<std::optional<size_t>> of;  ///< [v]: the variant's slot
};

struct SlotTable {
  std::vector<FusedSlot> slots;
  std::vector<std::vector<size_t>> number;  ///< [v][slot of the variant]: slot of the fused model
};

/// Slots that common ops read stay; of the others those that all variants call and shape alike are
/// stacked under their name; the rest is packed: the largest of each variant into one slot, the
/// second largest into the next, ..., by role, dtype and use.
SlotTable slotTable(const Outline& all);

/// Name of packed slot i. No module path has such a name; in the file it is `chorus.own.pI`.
std::string packedName(size_t i);

}  // namespace chorus::partial
