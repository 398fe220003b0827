#include "lib/equivalence/partition.h"

#include <algorithm>
#include <numeric>

#include "chorus/certificate.h"
#include "lib/support/hash.h"

namespace chorus::equivalence {
namespace {

constexpr int kTries = 64;

const uint64_t kUp = hashText("operand");
const uint64_t kDown = hashText("user");
const uint64_t kResult = hashText("result");
const uint64_t kState = hashText("state");

/// A link between two elements: `label` says which operand or output joins them.
struct Link {
  uint32_t to;
  uint64_t label;
};

/// Elements: live nodes that are no literals, train then eval, then slots; of `a`, then of `b`.
struct Elements {
  std::vector<std::vector<Link>> links;
  std::vector<uint64_t> looks;  ///< without what is linked
  std::vector<const std::string*> names;
  size_t of_a = 0;  ///< those below are a's

  size_t size() const { return looks.size(); }
};

/// Numbers of one member's elements in the list of all; kNoNode where there is none.
struct Places {
  std::array<std::vector<uint32_t>, 2> nodes;
  std::vector<uint32_t> slots;
};

class Adder {
 public:
  Adder(const IndexedMember& member, Elements& into) : member_(member), into_(into) {
    const auto take = [&](uint64_t look, const std::string* name) {
      into.looks.push_back(look);
      into.names.push_back(name);
      into.links.emplace_back();
      return static_cast<uint32_t>(into.looks.size() - 1);
    };
    for (size_t mode = 0; mode < 2; ++mode) {
      for (const IndexedNode& node : member.graphs[mode].nodes) {
        const bool counts = node.live && !node.literal;
        const uint64_t look = mixHash(mixHash(node.label_hash, mode), node.operands.size());
        places.nodes[mode].push_back(counts ? take(look, nullptr) : kNoNode);
      }
    }
    for (size_t s = 0; s < member.slot_leaves.size(); ++s) {
      const TensorSlot& slot = member.member->slots[s];
      const bool named = slot.role != Role::Constant;
      places.slots.push_back(member.slot_used[s] ? take(mixHash(kState, member.slot_leaves[s]),
                                                        named ? &slot.name : nullptr)
                                                 : kNoNode);
    }
    for (size_t mode = 0; mode < 2; ++mode) addGraph(mode);
  }

  Places places;

 private:
  void addGraph(size_t mode) {
    const IndexedGraph& graph = member_.graphs[mode];
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const IndexedNode& node = graph.nodes[n];
      const uint32_t me = places.nodes[mode][n];
      if (me == kNoNode) continue;
      for (size_t i = 0; i < node.operands.size(); ++i) {
        if (node.varying[i]) continue;
        const uint64_t position = node.unordered && i < 2 ? 0 : i;
        join(mode, me, node.operands[i], mixHash(kUp, position));
      }
    }
    for (size_t j = 0; j < graph.outputs.size(); ++j)
      mark(mode, graph.outputs[j], mixHash(kResult, j));
    for (const auto& [slot, value] : graph.update_of) join(mode, places.slots[slot], value, kState);
  }

  uint32_t placeOf(size_t mode, const Wire& wire) const {
    if (wire.kind == Wire::Kind::Node) return places.nodes[mode][wire.index];
    return wire.kind == Wire::Kind::Slot ? places.slots[wire.index] : kNoNode;
  }

  void mark(size_t mode, const Wire& wire, uint64_t what) {
    const uint32_t place = placeOf(mode, wire);
    if (place != kNoNode) into_.looks[place] += mixHash(mixHash(what, mode), wire.output);
  }

  void join(size_t mode, uint32_t user, const Wire& wire, uint64_t label) {
    if (user == kNoNode) return;
    label = mixHash(mixHash(label, mode), wire.output);
    const uint32_t place = placeOf(mode, wire);
    if (place == kNoNode) {  // an input or a literal: part of how the user looks
      into_.looks[user] += mixHash(label, wireHash(member_, mode, {}, {}, wire));
      return;
    }
    into_.links[user].push_back({place, label});
    into_.links[place].push_back({user, mixHash(kDown, label)});
  }

  const IndexedMember& member_;
  Elements& into_;
};

/// Cells are ranges of one array; a split cell's parts lie side by side, so that splits can be
/// undone.
class Partition {
 public:
  explicit Partition(const Elements& elements)
      : elements_(elements),
        order_(elements.size()),
        where_(elements.size()),
        cell_(elements.size(), 0),
        sums_(elements.size(), 0) {
    std::iota(order_.begin(), order_.end(), 0);
    std::iota(where_.begin(), where_.end(), 0);
    cells_.push_back({0, static_cast<uint32_t>(elements.size()), false});
  }

  /// By their looks, then by what follows; false if the members differ.
  bool start() {
    if (elements_.size() == 0) return true;
    sums_ = elements_.looks;
    push(0);
    const bool fits = splitWhole(0);
    std::ranges::fill(sums_, 0);
    return fits && refine();
  }

  uint32_t cellOf(uint32_t element) const { return cell_[element]; }
  uint32_t sizeOf(uint32_t element) const { return cells_[cell_[element]].size; }

  /// Those of `b` that look like `a`; one of a's name is first.
  std::vector<uint32_t> partners(uint32_t a) const {
    std::vector<uint32_t> found;
    const Cell& cell = cells_[cell_[a]];
    for (uint32_t i = cell.begin; i < cell.begin + cell.size; ++i) {
      if (order_[i] >= elements_.of_a) found.push_back(order_[i]);
    }
    const std::string* name = elements_.names[a];
    const auto is_named = [&](uint32_t b) {
      return name && elements_.names[b] && *elements_.names[b] == *name;
    };
    std::ranges::sort(found);
    std::stable_partition(found.begin(), found.end(), is_named);
    return found;
  }

  /// `a` and `b` get a cell of their own; false, with all as before, if that cannot be.
  bool choose(uint32_t a, uint32_t b) {
    const size_t mark = splits_.size();
    if (carveOut(cell_[a], {{1, {a, b}}}) && refine()) return true;
    for (const uint32_t cell : work_) cells_[cell].waits = false;
    work_.clear();
    while (splits_.size() > mark) {
      const auto [from, part] = splits_.back();
      splits_.pop_back();
      for (uint32_t i = 0; i < cells_[part].size; ++i) cell_[order_[cells_[part].begin + i]] = from;
      cells_[from].size += cells_[part].size;
      cells_.pop_back();
    }
    return false;
  }

 private:
  struct Cell {
    uint32_t begin, size;
    bool waits;  ///< in the work list
  };
  using Parts = std::map<uint64_t, std::vector<uint32_t>>;  ///< by sum

  bool even(const Parts& parts) const {
    return std::ranges::all_of(parts, [&](const auto& part) {
      const auto is_of_a = [&](uint32_t e) { return e < elements_.of_a; };
      return 2 * std::ranges::count_if(part.second, is_of_a) ==
             static_cast<std::ptrdiff_t>(part.second.size());
    });
  }

  void push(uint32_t cell) {
    if (std::exchange(cells_[cell].waits, true)) return;
    work_.push_back(cell);
  }

  /// By `sums_`. The largest part keeps the number, and need not be looked at again unless the
  /// whole was to be.
  bool splitWhole(uint32_t cell) {
    const Cell whole = cells_[cell];
    Parts parts;
    for (uint32_t i = 0; i < whole.size; ++i) {
      const uint32_t e = order_[whole.begin + i];
      parts[sums_[e]].push_back(e);
    }
    return place(cell, parts);
  }

  bool place(uint32_t cell, const Parts& parts) {
    if (!even(parts)) return false;
    std::vector<const std::vector<uint32_t>*> sorted;
    for (const auto& [sum, part] : parts) sorted.push_back(&part);
    std::ranges::stable_sort(sorted, std::greater(), [](const auto* part) { return part->size(); });
    const uint32_t begin = cells_[cell].begin;
    uint32_t next = begin;
    for (size_t i = 0; i < sorted.size(); ++i) {
      const auto size = static_cast<uint32_t>(sorted[i]->size());
      const auto mine = i == 0 ? cell : static_cast<uint32_t>(cells_.size());
      if (i == 0) cells_[cell].size = size;
      if (i > 0) cells_.push_back({next, size, false});
      for (const uint32_t e : *sorted[i]) {
        order_[next] = e;
        where_[e] = next++;
        cell_[e] = mine;
      }
      if (i > 0) {
        splits_.push_back({cell, mine});
        push(mine);
      }
    }
    return true;
  }

  bool refine() {
    while (!work_.empty()) {
      const uint32_t cell = work_.back();
      work_.pop_back();
      cells_[cell].waits = false;
      if (!splitNeighbours(cell)) return false;
    }
    return true;
  }

  /// Elements differ in how they are linked to the cell.
  bool splitNeighbours(uint32_t cell) {
    std::vector<uint32_t> touched;
    for (uint32_t i = 0; i < cells_[cell].size; ++i) {
      for (const Link& link : elements_.links[order_[cells_[cell].begin + i]]) {
        if (sums_[link.to] == 0) touched.push_back(link.to);
        sums_[link.to] += link.label | 1;
      }
    }
    std::map<uint32_t, std::vector<uint32_t>> by_cell;
    for (const uint32_t e : touched) {
      if (std::vector<uint32_t>& mine = by_cell[cell_[e]]; cells_[cell_[e]].size > 1)
        mine.push_back(e);
    }
    bool fits = true;
    for (const auto& [other, elements] : by_cell) {
      if (fits && !elements.empty()) fits = splitTouched(other, elements);
    }
    for (const uint32_t e : touched) sums_[e] = 0;
    return fits;
  }

  /// The same as splitWhole, in time of what is touched unless that is most of the cell.
  bool splitTouched(uint32_t cell, const std::vector<uint32_t>& touched) {
    const uint64_t first = sums_[touched[0]];
    const bool alike = std::ranges::all_of(touched, [&](uint32_t e) { return sums_[e] == first; });
    if (alike && touched.size() == cells_[cell].size) return true;
    if (2 * touched.size() >= cells_[cell].size) return splitWhole(cell);
    Parts parts;
    for (const uint32_t e : touched) parts[sums_[e]].push_back(e);
    return carveOut(cell, parts);
  }

  /// The parts leave the cell, the rest stays where it is.
  bool carveOut(uint32_t cell, const Parts& parts) {
    if (!even(parts)) return false;
    for (const auto& [sum, part] : parts) {
      const auto mine = static_cast<uint32_t>(cells_.size());
      Cell& whole = cells_[cell];
      uint32_t last = whole.begin + whole.size;
      for (const uint32_t e : part) {
        const uint32_t other = order_[--last];
        std::swap(order_[where_[e]], order_[last]);
        where_[other] = where_[e];
        where_[e] = last;
        cell_[e] = mine;
      }
      whole.size -= static_cast<uint32_t>(part.size());
      cells_.push_back({last, static_cast<uint32_t>(part.size()), false});
      splits_.push_back({cell, mine});
      push(mine);
    }
    return true;
  }

  const Elements& elements_;
  std::vector<uint32_t> order_, where_, cell_;
  std::vector<uint64_t> sums_;
  std::vector<Cell> cells_;
  std::vector<uint32_t> work_;
  std::vector<std::pair<uint32_t, uint32_t>> splits_;  ///< cell, its part
};

bool splitAll(Partition& partition, const Elements& elements) {
  if (!partition.start()) return false;
  int tries = 0;
  // Later elements first: slots, which have names, then nodes from the results on.
  for (auto a = static_cast<uint32_t>(elements.of_a); a-- > 0;) {
    if (partition.sizeOf(a) == 2) continue;
    bool done = false;
    for (const uint32_t b : partition.partners(a)) {
      done = partition.choose(a, b);
      if (done || ++tries > kTries) break;
    }
    if (!done) return false;
  }
  return true;
}

Colours coloursOf(const IndexedMember& member, const Places& places, const Partition& partition) {
  Colours colours;
  const auto colour = [&](uint32_t place) {
    return place == kNoNode ? 0 : mixHash(kState, partition.cellOf(place));
  };
  for (size_t mode = 0; mode < 2; ++mode) {
    for (const uint32_t place : places.nodes[mode]) colours.nodes[mode].push_back(colour(place));
  }
  for (size_t s = 0; s < places.slots.size(); ++s) {
    colours.slots.push_back(places.slots[s] == kNoNode ? member.slot_leaves[s]
                                                       : colour(places.slots[s]));
  }
  return colours;
}

}  // namespace

std::optional<std::pair<Colours, Colours>> splitIntoPairs(const IndexedMember& a,
                                                          const IndexedMember& b) {
  Elements elements;
  const Adder of_a(a, elements);
  elements.of_a = elements.size();
  const Adder of_b(b, elements);
  if (elements.size() != 2 * elements.of_a) return std::nullopt;
  Partition partition(elements);
  if (!splitAll(partition, elements)) return std::nullopt;
  return std::pair{coloursOf(a, of_a.places, partition), coloursOf(b, of_b.places, partition)};
}

}  // namespace chorus::equivalence
