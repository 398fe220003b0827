#include "lib/equivalence/match.h"

#include <deque>

#include "lib/equivalence/partition.h"

namespace chorus::equivalence {
namespace {

/// How often colours are refined anew after a free choice; beyond, only one-step lookahead is left.
constexpr int kRefinements = 16;

/// A one-to-one map between indices, kept in both directions.
struct Bijection {
  std::vector<uint32_t> forward, backward;

  Bijection(size_t a, size_t b) : forward(a, kNoNode), backward(b, kNoNode) {}
  bool has(uint32_t a) const { return forward[a] != kNoNode; }
  bool agrees(uint32_t a, uint32_t b) const { return forward[a] == b; }
  bool isFree(uint32_t a, uint32_t b) const { return !has(a) && backward[b] == kNoNode; }
  void join(uint32_t a, uint32_t b) {
    forward[a] = b;
    backward[b] = a;
  }
  void part(uint32_t a) {
    backward[forward[a]] = kNoNode;
    forward[a] = kNoNode;
  }
};

class Matcher {
 public:
  Matcher(const IndexedMember& a, const IndexedMember& b)
      : a_(a),
        b_(b),
        nodes_{Bijection(a.graphs[0].nodes.size(), b.graphs[0].nodes.size()),
               Bijection(a.graphs[1].nodes.size(), b.graphs[1].nodes.size())},
        slots_(a.slot_leaves.size(), b.slot_leaves.size()) {}

  /// Plain: every step is forced and no colours are needed. Else operands of commutative ops may be
  /// swapped. Split: cells of what looks alike are split, those of equal names first. Swaps: by
  /// looking one step ahead.
  enum class Way { Plain, Split, Swaps };

  bool run(Way way) {
    swaps_ = way != Way::Plain;
    if (way == Way::Split && !splitCells()) return false;
    for (size_t mode = 0; mode < 2; ++mode) {
      if (swaps_) colour();  // for eval, with the slots that train has settled
      for (size_t j = 0; j < a_.graphs[mode].outputs.size(); ++j) {
        work_.push_back({mode, a_.graphs[mode].outputs[j], b_.graphs[mode].outputs[j]});
      }
      if (!settle()) return false;
    }
    return matchUpdatedSlots() && matchUnusedSlots() && coversAll();
  }

  /// True if each slot goes to one of its own name. Constants have no names of the user's.
  bool keepsNames() const {
    for (size_t s = 0; s < slots_.forward.size(); ++s) {
      const TensorSlot& slot = a_.member->slots[s];
      const TensorSlot& partner = b_.member->slots[slots_.forward[s]];
      if (slot.role != Role::Constant && slot.name != partner.name) return false;
    }
    return true;
  }

  MemberMap result() const {
    MemberMap map{literals(0), literals(1), slots_.forward, 0};
    return map;
  }

 private:
  struct Pair {
    size_t mode;
    Wire a, b;
  };
  struct Choice {
    size_t mode;
    uint32_t a, b;  // nodes
  };
  struct Undo {
    size_t mode;  // 2: a slot
    uint32_t a;
  };

  const IndexedNode& nodeA(size_t mode, uint32_t n) const { return a_.graphs[mode].nodes[n]; }
  const IndexedNode& nodeB(size_t mode, uint32_t n) const { return b_.graphs[mode].nodes[n]; }

  bool pair(const Pair& p) {
    if (p.a.kind != p.b.kind || p.a.output != p.b.output) return false;
    switch (p.a.kind) {
      case Wire::Kind::Input:
        return p.a.index == p.b.index;
      case Wire::Kind::Slot:
        return pairSlots(p.a.index, p.b.index);
      case Wire::Kind::Literal:
        return nodeA(p.mode, p.a.index).label == nodeB(p.mode, p.b.index).label;
      case Wire::Kind::Node:
        return pairNodes(p.mode, p.a.index, p.b.index);
    }
    return false;
  }

  bool pairSlots(uint32_t a, uint32_t b) {
    if (slots_.agrees(a, b)) return true;
    if (!slots_.isFree(a, b) || a_.slot_leaves[a] != b_.slot_leaves[b]) return false;
    slots_.join(a, b);
    log_.push_back({2, a});
    for (size_t mode = 0; mode < 2; ++mode) {
      const auto& updates_a = a_.graphs[mode].update_of;
      const auto& updates_b = b_.graphs[mode].update_of;
      const auto in_a = updates_a.find(a);
      const auto in_b = updates_b.find(b);
      if ((in_a == updates_a.end()) != (in_b == updates_b.end())) return false;
      if (in_a != updates_a.end()) work_.push_back({mode, in_a->second, in_b->second});
    }
    return true;
  }

  bool pairNodes(size_t mode, uint32_t a, uint32_t b) {
    if (nodes_[mode].agrees(a, b)) return true;
    const IndexedNode& na = nodeA(mode, a);
    const IndexedNode& nb = nodeB(mode, b);
    const bool alike = na.label == nb.label && na.operands.size() == nb.operands.size() &&
                       na.node->outputs().size() == nb.node->outputs().size();
    if (!alike || !nodes_[mode].isFree(a, b)) return false;
    nodes_[mode].join(a, b);
    log_.push_back({mode, a});
    const size_t first = na.commutative && nb.commutative && swaps_ ? 2 : 0;
    for (size_t i = first; i < na.operands.size(); ++i) {
      if (differAndMay(mode, na, nb, i)) continue;
      work_.push_back({mode, na.operands[i], nb.operands[i]});
    }
    return first == 0 || orderOperands({mode, a, b});
  }

  bool differAndMay(size_t mode, const IndexedNode& a, const IndexedNode& b, size_t i) const {
    if (!a.varying[i] || !b.varying[i]) return false;
    return mayVary(a, b, i, nodeA(mode, a.operands[i].index).label,
                   nodeB(mode, b.operands[i].index).label);
  }

  /// Colours decide which operand of a commutative op is which; where both look alike, the choice
  /// is put off.
  bool orderOperands(const Choice& choice) {
    const auto [a0, a1] = operandColours(a_, colours_a_, choice.mode, choice.a);
    const auto [b0, b1] = operandColours(b_, colours_b_, choice.mode, choice.b);
    const bool straight = a0 == b0 && a1 == b1;
    const bool crossed = a0 == b1 && a1 == b0;
    if (straight && crossed)
      choices_.push_back(choice);
    else if (straight || crossed)
      pushOperands(choice, crossed);
    return straight || crossed;
  }

  static std::pair<uint64_t, uint64_t> operandColours(const IndexedMember& member,
                                                      const Colours& colours, size_t mode,
                                                      uint32_t n) {
    const std::vector<Wire>& operands = member.graphs[mode].nodes[n].operands;
    const auto colour = [&](const Wire& wire) {
      return wireHash(member, mode, colours.nodes[mode], colours.slots, wire);
    };
    return {colour(operands[0]), colour(operands[1])};
  }

  void pushOperands(const Choice& choice, bool crossed) {
    const std::vector<Wire>& a = nodeA(choice.mode, choice.a).operands;
    const std::vector<Wire>& b = nodeB(choice.mode, choice.b).operands;
    work_.push_back({choice.mode, a[0], b[crossed ? 1 : 0]});
    work_.push_back({choice.mode, a[1], b[crossed ? 0 : 1]});
  }

  bool propagate() {
    while (!work_.empty()) {
      const Pair next = work_.front();
      work_.pop_front();
      if (!pair(next)) return false;
    }
    return true;
  }

  /// Propagates; on failure everything since the call is undone.
  bool attempt() {
    const size_t mark = log_.size();
    const size_t n_choices = choices_.size();
    if (propagate()) return true;
    work_.clear();
    choices_.resize(n_choices);
    while (log_.size() > mark) {
      const Undo undo = log_.back();
      log_.pop_back();
      (undo.mode == 2 ? slots_ : nodes_[undo.mode]).part(undo.a);
    }
    return false;
  }

  /// Propagates until nothing is left to choose.
  bool settle() {
    if (!propagate()) return false;
    while (next_choice_ < choices_.size()) {
      const Choice choice = choices_[next_choice_++];
      pushOperands(choice, false);
      if (!attempt()) {
        pushOperands(choice, true);
        if (!attempt()) return false;
      }
      if (refinements_++ < kRefinements) colour();
    }
    return true;
  }

  bool splitCells() {
    auto colours = splitIntoPairs(a_, b_);
    if (!colours) return false;
    std::tie(colours_a_, colours_b_) = std::move(*colours);
    split_ = true;
    return true;
  }

  /// Colours under what is mapped already: partners get the same mark.
  void colour() {
    if (split_) return;  // they say all there is to say
    const auto marks = [](const Bijection& map) {
      std::pair<std::vector<uint64_t>, std::vector<uint64_t>> result;
      result.first.resize(map.forward.size());
      result.second.resize(map.backward.size());
      for (size_t i = 0; i < map.forward.size(); ++i) {
        if (map.forward[i] == kNoNode) continue;
        result.first[i] = i + 1;
        result.second[map.forward[i]] = i + 1;
      }
      return result;
    };
    const auto [train_a, train_b] = marks(nodes_[0]);
    const auto [eval_a, eval_b] = marks(nodes_[1]);
    const auto [slots_a, slots_b] = marks(slots_);
    colours_a_ = refine(a_, slots_a, {train_a, eval_a});
    colours_b_ = refine(b_, slots_b, {train_b, eval_b});
  }

  /// Slots that no output depends on but that are updated (counters): by name where that works,
  /// else in order among those that look alike.
  bool matchUpdatedSlots() { return matchRest(true); }

  /// Slots that nothing uses: by name, else in order among those of equal role, shape and dtype.
  bool matchUnusedSlots() { return matchRest(false); }

  bool matchRest(bool used) {
    const auto is_open = [&](const IndexedMember& m, const Bijection& map, bool forward, size_t s) {
      const std::vector<uint32_t>& partner = forward ? map.forward : map.backward;
      return partner[s] == kNoNode && (m.slot_used[s] != 0) == used;
    };
    std::vector<uint32_t> open;
    for (size_t s = 0; s < a_.slot_leaves.size(); ++s) {
      if (is_open(a_, slots_, true, s)) open.push_back(static_cast<uint32_t>(s));
    }
    if (open.empty()) return true;
    if (used) colour();
    const std::vector<uint64_t>& looks_a = used ? colours_a_.slots : a_.slot_leaves;
    const std::vector<uint64_t>& looks_b = used ? colours_b_.slots : b_.slot_leaves;
    std::unordered_map<std::string, uint32_t> by_name;
    std::unordered_map<uint64_t, std::deque<uint32_t>> by_look;
    for (size_t s = 0; s < b_.slot_leaves.size(); ++s) {
      if (!is_open(b_, slots_, false, s)) continue;
      by_name.emplace(b_.member->slots[s].name, static_cast<uint32_t>(s));
      by_look[looks_b[s]].push_back(static_cast<uint32_t>(s));
    }
    for (const uint32_t s : open) {  // names first, so that order takes only what no name claims
      const auto found = by_name.find(a_.member->slots[s].name);
      if (found == by_name.end() || looks_a[s] != looks_b[found->second]) continue;
      if (slots_.isFree(s, found->second) && !joinSlots(s, found->second)) return false;
    }
    for (const uint32_t s : open) {
      if (slots_.has(s)) continue;
      std::deque<uint32_t>& candidates = by_look[looks_a[s]];
      while (!candidates.empty() && slots_.backward[candidates.front()] != kNoNode) {
        candidates.pop_front();
      }
      if (candidates.empty() || !joinSlots(s, candidates.front())) return false;
    }
    return true;
  }

  bool joinSlots(uint32_t a, uint32_t b) { return pairSlots(a, b) && settle(); }

  bool coversAll() const {
    const auto covers = [](const std::vector<uint32_t>& map, const IndexedGraph& graph) {
      for (size_t n = 0; n < map.size(); ++n) {
        const IndexedNode& node = graph.nodes[n];
        if (node.live && !node.literal && map[n] == kNoNode) return false;
      }
      return true;
    };
    for (size_t mode = 0; mode < 2; ++mode) {
      if (!covers(nodes_[mode].forward, a_.graphs[mode])) return false;
      if (!covers(nodes_[mode].backward, b_.graphs[mode])) return false;
    }
    const std::vector<uint32_t>& open = slots_.backward;
    return std::find(open.begin(), open.end(), kNoNode) == open.end();
  }

  /// The node map with each literal of `a` sent to the first equal one of `b`.
  std::vector<uint32_t> literals(size_t mode) const {
    std::unordered_map<std::string, uint32_t> first;
    for (size_t n = 0; n < b_.graphs[mode].nodes.size(); ++n) {
      const IndexedNode& node = nodeB(mode, n);
      if (node.literal) first.emplace(node.label, static_cast<uint32_t>(n));
    }
    std::vector<uint32_t> map = nodes_[mode].forward;
    for (size_t n = 0; n < map.size(); ++n) {
      if (!nodeA(mode, n).literal) continue;
      const auto found = first.find(nodeA(mode, n).label);
      if (found != first.end()) map[n] = found->second;
    }
    return map;
  }

  const IndexedMember& a_;
  const IndexedMember& b_;
  std::array<Bijection, 2> nodes_;
  Bijection slots_;
  bool swaps_ = false, split_ = false;
  std::deque<Pair> work_;
  std::vector<Choice> choices_;
  size_t next_choice_ = 0;
  std::vector<Undo> log_;
  Colours colours_a_, colours_b_;
  int refinements_ = 0;
};

bool sameInterface(const IndexedMember& a, const IndexedMember& b) {
  const auto same_spec = [](const InputSpec& x, const InputSpec& y) {
    return x.dtype == y.dtype && x.sizes == y.sizes && x.bound == y.bound;
  };
  const std::vector<InputSpec>& inputs_a = a.member->inputs;
  const std::vector<InputSpec>& inputs_b = b.member->inputs;
  return std::equal(inputs_a.begin(), inputs_a.end(), inputs_b.begin(), inputs_b.end(),
                    same_spec) &&
         a.member->output == b.member->output && a.slot_leaves.size() == b.slot_leaves.size() &&
         a.graphs[0].outputs.size() == b.graphs[0].outputs.size() &&
         a.graphs[1].outputs.size() == b.graphs[1].outputs.size();
}

}  // namespace

std::vector<VaryingPlace> varyingPlaces(const IndexedMember& member) {
  std::vector<VaryingPlace> places;
  for (size_t mode = 0; mode < 2; ++mode) {
    const std::vector<IndexedNode>& nodes = member.graphs[mode].nodes;
    for (uint32_t n = 0; n < nodes.size(); ++n) {
      for (uint32_t i = 0; nodes[n].live && i < nodes[n].varying.size(); ++i) {
        if (nodes[n].varying[i]) places.push_back({mode, n, i});
      }
    }
  }
  return places;
}

std::vector<std::string> varyingValues(const IndexedMember& b, const MemberMap& map,
                                       const std::vector<VaryingPlace>& places) {
  std::vector<std::string> values;
  for (const VaryingPlace& place : places) {
    const auto& nodes = place.mode == 0 ? map.train_nodes : map.eval_nodes;
    const IndexedGraph& graph = b.graphs[place.mode];
    values.push_back(
        graph.nodes[graph.nodes[nodes.at(place.node)].operands[place.operand].index].label);
  }
  return values;
}

std::optional<MemberMap> match(const IndexedMember& a, const IndexedMember& b) {
  if (!sameInterface(a, b)) return std::nullopt;
  // Split members keep their names, so of several maps the one that keeps them is the best.
  std::optional<MemberMap> plain;
  using Way = Matcher::Way;
  for (const Way way : {Way::Plain, Way::Split, Way::Swaps}) {
    if (way == Way::Swaps && plain) break;
    Matcher matcher(a, b);
    if (!matcher.run(way)) continue;
    if (matcher.keepsNames() || (way != Way::Plain && !plain)) return matcher.result();
    if (!plain) plain = matcher.result();
  }
  return plain;
}

}  // namespace chorus::equivalence
