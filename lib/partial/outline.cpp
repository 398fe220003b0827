#include "lib/partial/outline.h"

#include "lib/partial/cost.h"

namespace chorus::partial {
namespace {

Join valuesOf(const ModeOutline& mode, size_t c, size_t operand) {
  Join values;
  for (size_t v = 0; v < mode.sequences.size(); ++v)
    values.push_back(mode.item(c, v).reads.at(operand));
  return values;
}

/// Ops that all variants have in one order; the first variant is the measure.
std::vector<std::vector<size_t>> alignedOps(const std::vector<Sequence>& sequences) {
  const size_t variants = sequences.size();
  std::vector<std::vector<size_t>> tuples(sequences[0].items.size());
  for (size_t i = 0; i < tuples.size(); ++i) tuples[i] = {i};
  for (size_t v = 1; v < variants; ++v) {
    for (const auto& [i, j] : longestCommon(sequences[0], sequences[v])) {
      if (tuples[i].size() == v) tuples[i].push_back(j);
    }
  }
  std::erase_if(tuples, [&](const auto& tuple) { return tuple.size() != variants; });
  return tuples;
}

/// Gaps of the ops that are apart: as late as their readers allow.
void placeApart(ModeOutline& mode, size_t v) {
  const Sequence& sequence = mode.sequences[v];
  std::vector<size_t>& common_of = mode.common_of[v];
  std::vector<size_t>& gap_of = mode.gap_of[v];
  common_of.assign(sequence.items.size(), kApart);
  for (size_t c = 0; c < mode.common.size(); ++c) common_of[mode.common[c][v]] = c;
  gap_of.assign(sequence.items.size(), mode.common.size());
  for (size_t i = sequence.items.size(); i-- > 0;) {
    const size_t mine = common_of[i] == kApart ? gap_of[i] : common_of[i];
    for (const Value* value : sequence.items[i].reads) {
      const auto read = sequence.index.find(value->node());
      if (read == sequence.index.end() || common_of[read->second] != kApart) continue;
      gap_of[read->second] = std::min(gap_of[read->second], mine);
    }
  }
}

/// What one round finds wrong with the common ops.
class Round {
 public:
  Round(Outline& all, size_t m) : all_(all), mode_(all.modes[m]) {}

  /// Common ops that cannot be; empty if all can.
  std::set<size_t> run() {
    mode_.joins.clear();
    mode_.common_of.resize(mode_.sequences.size());
    mode_.gap_of.resize(mode_.sequences.size());
    for (size_t v = 0; v < mode_.sequences.size(); ++v) placeApart(mode_, v);
    for (size_t c = 0; c < mode_.common.size(); ++c) {
      for (size_t i = 0; i < mode_.item(c, 0).reads.size(); ++i) {
        if (!operandFits(valuesOf(mode_, c, i))) wrong_.insert(c);
      }
    }
    if (!wrong_.empty()) return wrong_;
    results();
    for (const auto& [join, gap] : mode_.joins) {
      for (size_t v = 0; v < join.size(); ++v) requireAt(v, join[v], gap);
    }
    for (size_t v = 0; v < mode_.sequences.size(); ++v) {
      for (size_t i = 0; i < mode_.gap_of[v].size(); ++i) {
        const Item& item = mode_.sequences[v].items[i];
        if (mode_.common_of[v][i] != kApart || item.loose) continue;
        for (const Value* value : item.reads) requireAt(v, value, mode_.gap_of[v][i]);
      }
    }
    return wrong_;
  }

 private:
  bool operandFits(const Join& values) {
    size_t literals = 0;
    std::vector<size_t> numbers;
    for (size_t v = 0; v < values.size(); ++v) {
      literals += mode_.sequences[v].literals.count(values[v]);
      if (const auto slot = mode_.sequences[v].slotOf(values[v])) numbers.push_back(*slot);
    }
    if (literals > 0) return literals == values.size();
    if (!numbers.empty()) return numbers.size() == values.size() && pair(numbers);
    return mode_.isCommon(values) || join(values);
  }

  bool pair(const std::vector<size_t>& numbers) {
    if (all_.areOneSlot(numbers)) return true;
    for (const auto& other : all_.slots) {
      for (size_t v = 0; v < numbers.size(); ++v) {
        if (other[v] == numbers[v]) return false;
      }
    }
    for (size_t v = 1; v < numbers.size(); ++v) {
      if (all_.traits[v][numbers[v]].text != all_.traits[0][numbers[0]].text) return false;
    }
    all_.slots.push_back(numbers);
    return true;
  }

  bool join(const Join& values) {
    size_t gap = 0;
    for (size_t v = 0; v < values.size(); ++v) {
      if (!sameShape(values[0], values[v])) return false;
      gap = std::max(gap, mode_.availableAt(v, values[v]));
    }
    mode_.joins[values] = gap;
    return true;
  }

  void results() {
    for (size_t i = 0; i < mode_.sequences[0].canonical->n_outputs; ++i) {
      Join values;
      for (const Sequence& s : mode_.sequences) values.push_back(s.canonical->graph->outputs()[i]);
      if (!mode_.isCommon(values) && !join(values)) {
        throw Refused(error("--partial: output " + std::to_string(i) +
                            " has another dtype or shape in some members"));
      }
    }
  }

  /// Variant v's value is needed in `gap`: what lies between where it is made and there cannot be
  /// common unless a join carries it.
  void requireAt(size_t v, const Value* value, size_t gap) {
    const Sequence& sequence = mode_.sequences[v];
    const auto made = sequence.index.find(value->node());
    if (made == sequence.index.end() || mode_.common_of[v][made->second] != kApart) return;
    const Item& item = sequence.items[made->second];
    if (item.loose) {
      for (const Value* operand : item.reads) requireAt(v, operand, gap);
      return;
    }
    const size_t at = mode_.gap_of[v][made->second];
    if (at == gap || mode_.carrier(v, value)) return;
    for (size_t c = at; c < gap; ++c) wrong_.insert(c);
  }

  Outline& all_;
  ModeOutline& mode_;
  std::set<size_t> wrong_;
};

void demote(ModeOutline& mode, const std::set<size_t>& wrong) {
  std::vector<std::vector<size_t>> kept;
  for (size_t c = 0; c < mode.common.size(); ++c) {
    if (!wrong.contains(c)) kept.push_back(mode.common[c]);
  }
  mode.common = std::move(kept);
}

void settle(Outline& all) {
  for (bool changed = true; changed;) {
    changed = false;
    all.slots.clear();
    for (size_t m = 0; m < 2; ++m) {
      const std::set<size_t> wrong = Round(all, m).run();
      changed = changed || !wrong.empty();
      demote(all.modes[m], wrong);
    }
  }
}

void requireSameInterface(const std::vector<const Member*>& variants) {
  const Member& first = *variants[0];
  for (const Member* other : variants) {
    const auto same = [&](const InputSpec& a, const InputSpec& b) {
      return a.dtype == b.dtype && a.sizes == b.sizes && a.bound == b.bound;
    };
    const bool inputs = std::ranges::equal(first.inputs, other->inputs, same);
    if (inputs && first.output == other->output && first.code_trains == other->code_trains)
      continue;
    const std::string what = !inputs                         ? "inputs of another dtype or shape"
                             : first.output == other->output ? "been traced in another mode"
                                                             : "results of another form";
    throw Refused(
        error("--partial: '" + other->path + "' has " + what + " than '" + first.path + "'")
            .helpWith("--group trains them apart"));
  }
}

}  // namespace

bool ModeOutline::isCommon(const Join& values) const {
  for (size_t v = 0; v < values.size(); ++v) {
    const Sequence& sequence = sequences[v];
    if (sequences[0].isInput(values[0]) || sequence.isInput(values[v])) {
      // Slots are compared as slots, see `areOneSlot`.
      const bool inputs = sequence.isInput(values[v]) && sequences[0].isInput(values[0]) &&
                          values[v]->offset() == values[0]->offset() &&
                          values[v]->offset() < sequence.canonical->n_inputs;
      if (!inputs) return false;
      continue;
    }
    const auto mine = sequence.index.find(values[v]->node());
    const auto first = sequences[0].index.find(values[0]->node());
    if (mine == sequence.index.end() || first == sequences[0].index.end()) return false;
    const size_t c = common_of[v][mine->second];
    if (c == kApart || c != common_of[0][first->second]) return false;
    if (values[v]->offset() != values[0]->offset()) return false;
  }
  return true;
}

size_t ModeOutline::availableAt(size_t v, const Value* value) const {
  const auto made = sequences[v].index.find(value->node());
  if (made == sequences[v].index.end()) return 0;
  const size_t c = common_of[v][made->second];
  return c == kApart ? gap_of[v][made->second] : c + 1;
}

const Join* ModeOutline::carrier(size_t v, const Value* value) const {
  const size_t gap = availableAt(v, value);
  for (const auto& [join, at] : joins) {
    if (at == gap && join[v] == value) return &join;
  }
  return nullptr;
}

bool Outline::areOneSlot(const std::vector<size_t>& numbers) const {
  return std::ranges::count(slots, numbers) > 0;
}

Outline outline(const std::vector<const Member*>& variants, const std::vector<size_t>& members) {
  requireSameInterface(variants);
  Outline all;
  all.variants = variants;
  for (const Member* member : variants) all.traits.push_back(slotTraits(*member));
  for (size_t m = 0; m < 2; ++m) {
    for (size_t v = 0; v < variants.size(); ++v) {
      all.modes[m].sequences.push_back(std::move(sequencesOf(*variants[v], all.traits[v])[m]));
    }
    all.modes[m].common = alignedOps(all.modes[m].sequences);
  }
  settle(all);
  while (const auto island = costlyIsland(all, members)) {
    all.notes.push_back(island->note);
    demote(all.modes[island->mode], island->ops);
    settle(all);
  }
  requireWorthwhile(all, members);
  return all;
}

}  // namespace chorus::partial
