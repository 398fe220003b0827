// What members have in common, and where they differ.
//
// Members that are equal are one *variant*. The graphs of the variants are laid side by side; ops
// that all have, in one order, are *common*. The others stand in *gaps*: gap c lies before common
// op c, the last one before the results. A gap becomes one chorus::choice (lib/support/choice.h):
// each variant's ops of the gap are its block. What leaves it are *joins*: for each variant the
// value that takes the place. A join of which a variant has nothing of its own passes a common
// value on (an extra layer in one member only).
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "lib/partial/sequence.h"

namespace chorus::partial {

using Join = std::vector<const Value*>;  ///< one value per variant
constexpr size_t kApart = static_cast<size_t>(-1);

/// One graph of all variants.
struct ModeOutline {
  std::vector<Sequence> sequences;          ///< per variant
  std::vector<std::vector<size_t>> common;  ///< [c][v]: item of variant v; ascending for each v

  // Made by `place`:
  std::vector<std::vector<size_t>> common_of;  ///< [v][item]: number of the common op, or kApart
  std::vector<std::vector<size_t>> gap_of;     ///< [v][item]: of those that are apart
  std::map<Join, size_t> joins;                ///< gap that gives it

  const Item& item(size_t c, size_t v) const { return sequences[v].items[common[c][v]]; }
  /// The one value of all variants that these are (a model input, a slot, a common op's result), or
  /// false.
  bool isCommon(const Join& values) const;
  /// First gap in which a value can be read.
  size_t availableAt(size_t v, const Value* value) const;
  /// The join that carries variant v's value out of its gap, or nullptr.
  const Join* carrier(size_t v, const Value* value) const;
};

struct Outline {
  std::vector<const Member*> variants;
  std::vector<std::vector<SlotTraits>> traits;  ///< [v][slot]
  std::array<ModeOutline, 2> modes;
  /// Slots that common ops read: those of the variants that are one tensor.
  std::vector<std::vector<size_t>> slots;
  /// What was decided about ops in between, e.g. for the plan.
  std::vector<std::string> notes;

  bool areOneSlot(const std::vector<size_t>& numbers) const;
};

/// Throws Refused (error) where inputs or results differ, or where no op is left that is worth
/// fusing. `members[v]`: how many members variant v has.
Outline outline(const std::vector<const Member*>& variants, const std::vector<size_t>& members);

}  // namespace chorus::partial
