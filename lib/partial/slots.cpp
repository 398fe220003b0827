#include "lib/partial/slots.h"

#include <numeric>

#include "lib/support/packed_name.h"

namespace chorus::partial {
namespace {

const TensorSlot& slotOf(const Outline& all, size_t v, size_t s) {
  return all.variants[v]->slots[s];
}

/// A tensor that moves where the model's outputs depend on it; else no optimizer may see it.
FusedSlot fusedSlot(const Outline& all, const std::vector<std::optional<size_t>>& of) {
  size_t v = 0;
  while (!of[v]) ++v;
  FusedSlot made;
  made.slot = slotOf(all, v, *of[v]);
  made.sizes = made.slot.value.sizes().vec();
  made.slot.value = at::Tensor();
  made.traits = all.traits[v][*of[v]];
  made.slot.requires_grad = made.traits.trains;
  made.of = of;
  for (size_t w = 0; w < of.size(); ++w) {
    if (!of[w] || slotOf(all, w, *of[w]).aliases.size() != made.slot.aliases.size())
      made.slot.aliases.clear();
  }
  return made;
}

std::vector<std::optional<size_t>> optionals(const std::vector<size_t>& numbers) {
  return {numbers.begin(), numbers.end()};
}

/// Own slots of the name in all variants that are alike; empty if there are none.
std::vector<size_t> namesakes(const Outline& all, size_t slot,
                              const std::vector<std::vector<bool>>& placed) {
  std::vector<size_t> numbers = {slot};
  for (size_t v = 1; v < all.variants.size(); ++v) {
    const auto& slots = all.variants[v]->slots;
    for (size_t s = 0; s < slots.size(); ++s) {
      const bool same = !placed[v][s] && slots[s].name == slotOf(all, 0, slot).name &&
                        all.traits[v][s].text == all.traits[0][slot].text;
      if (same) numbers.push_back(s);
    }
    if (numbers.size() != v + 1) return {};
  }
  return numbers;
}

/// What packed slots have in common: all but the shape.
std::string kindOf(const TensorSlot& slot, const SlotTraits& traits) {
  return c10::str(static_cast<int>(slot.role), dtypeName(slot.value.scalar_type()), traits.trains,
                  traits.updated[0], traits.updated[1]);
}

}  // namespace

std::string packedName(size_t i) { return kPackedPrefix + ("p" + std::to_string(i)); }

SlotTable slotTable(const Outline& all) {
  const size_t variants = all.variants.size();
  std::vector<std::vector<bool>> placed;
  SlotTable table;
  for (const Member* member : all.variants) {
    placed.emplace_back(member->slots.size());
    table.number.emplace_back(member->slots.size());
  }
  const auto add = [&](FusedSlot slot) {
    for (size_t v = 0; v < variants; ++v) {
      if (!slot.of[v]) continue;
      placed[v][*slot.of[v]] = true;
      table.number[v][*slot.of[v]] = table.slots.size();
    }
    table.slots.push_back(std::move(slot));
  };
  std::map<size_t, const std::vector<size_t>*> common;
  for (const std::vector<size_t>& numbers : all.slots) {
    common[numbers[0]] = &numbers;
    for (size_t v = 0; v < variants; ++v) placed[v][numbers[v]] = true;
  }
  for (size_t s = 0; s < all.variants[0]->slots.size(); ++s) {
    const auto found = common.find(s);
    const std::vector<size_t> numbers =
        found == common.end() ? namesakes(all, s, placed) : *found->second;
    if (!numbers.empty()) add(fusedSlot(all, optionals(numbers)));
  }
  std::map<std::string, std::vector<std::vector<size_t>>> packs;  // kind -> [v] -> slots
  for (size_t v = 0; v < variants; ++v) {
    for (size_t s = 0; s < placed[v].size(); ++s) {
      if (placed[v][s]) continue;
      auto& pack = packs[kindOf(slotOf(all, v, s), all.traits[v][s])];
      pack.resize(variants);
      pack[v].push_back(s);
    }
  }
  size_t count = 0;
  for (auto& [kind, pack] : packs) {
    size_t most = 0;
    for (size_t v = 0; v < variants; ++v) {
      std::ranges::stable_sort(pack[v], std::greater(),
                               [&](size_t s) { return slotOf(all, v, s).value.numel(); });
      most = std::max(most, pack[v].size());
    }
    for (size_t i = 0; i < most; ++i) {
      std::vector<std::optional<size_t>> of(variants);
      int64_t width = 1;
      for (size_t v = 0; v < variants; ++v) {
        if (i >= pack[v].size()) continue;
        of[v] = pack[v][i];
        width = std::max(width, slotOf(all, v, pack[v][i]).value.numel());
      }
      FusedSlot made = fusedSlot(all, of);
      made.slot.name = packedName(count++);
      made.slot.aliases.clear();
      made.sizes = {width};
      made.packed = true;
      add(std::move(made));
    }
  }
  return table;
}

}  // namespace chorus::partial
