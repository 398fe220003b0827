#include "lib/equivalence/explain.h"

#include <torch/csrc/jit/ir/constants.h>

#include <deque>

#include "lib/equivalence/differences.h"
#include "lib/equivalence/structural_hash.h"
#include "lib/equivalence/text.h"

namespace chorus::equivalence {
namespace {

/// One step of the work list: two values that should correspond, and who reads them as what.
struct Step {
  size_t mode;
  Wire major, odd;
  const IndexedNode* major_user;  // null: an output or update
  const IndexedNode* odd_user;
  std::string argument;  // e.g. "stride", "tensors'[1]"; for an output "output 0"
};

class Walk {
 public:
  Walk(const IndexedMember& major, const IndexedMember& odd)
      : major_(major),
        odd_(odd),
        major_hashes_(hashNodes(major, major.slot_leaves)),
        odd_hashes_(hashNodes(odd, odd.slot_leaves)) {
    for (size_t mode = 0; mode < 2; ++mode) {
      partner_[mode].resize(major.graphs[mode].nodes.size(), kNone);
      reverse_[mode].resize(odd.graphs[mode].nodes.size(), kNone);
    }
    slot_partner_.resize(major.slot_leaves.size(), kNone);
    slot_reverse_.resize(odd.slot_leaves.size(), kNone);
  }

  Difference run() {
    if (const auto finding = interfaceFinding(*major_.member, *odd_.member)) {
      return make(*finding, {});
    }
    for (size_t mode = 0; mode < 2 && !decided(); ++mode) {
      const std::vector<Wire>& outputs = major_.graphs[mode].outputs;
      for (size_t j = 0; j < outputs.size(); ++j) {
        work_.push_back({mode, outputs[j], odd_.graphs[mode].outputs[j], nullptr, nullptr,
                         outputs.size() == 1 ? "output" : cat({"output ", std::to_string(j)})});
      }
      follow();
    }
    if (!decided()) pairOtherSlots();
    if (!decided()) compareUpdates();
    if (!decided() && !shape_) compareSlotLists();
    for (const auto& difference : {found_, shape_, size_}) {
      if (difference) return *difference;
    }
    return make("it is wired differently", "C3", {});
  }

 private:
  static constexpr uint32_t kNone = 0xffffffff;

  bool decided() const { return found_.has_value(); }

  Difference make(std::string text, std::string condition, const Step& step,
                  const IndexedNode* major_node = nullptr, const IndexedNode* odd_node = nullptr) {
    Difference difference;
    difference.text = std::move(text);
    if (step.mode == 1) difference.text += " (in eval mode)";
    difference.condition = std::move(condition);
    const IndexedNode* major_at = major_node ? major_node : step.major_user;
    const IndexedNode* odd_at = odd_node ? odd_node : step.odd_user;
    if (odd_at) difference.odd_place = placeOf(odd_at->node, odd_.member->path);
    if (major_at) difference.major_place = placeOf(major_at->node, major_.member->path);
    difference.odd_place.file = odd_.member->path;
    difference.major_place.file = major_.member->path;
    return difference;
  }

  Difference make(const Finding& finding, const Step& step) {
    Difference difference = make(finding.text, finding.condition, step);
    difference.notes = finding.notes;
    return difference;
  }

  void report(Difference difference) {
    if (!found_) found_ = std::move(difference);
  }

  const IndexedNode& majorNode(const Step& s) const {
    return major_.graphs[s.mode].nodes[s.major.index];
  }
  const IndexedNode& oddNode(const Step& s) const { return odd_.graphs[s.mode].nodes[s.odd.index]; }
  std::string nameOfMajor(size_t mode, const IndexedNode& node) const {
    return userName(major_.graphs[mode], major_, node);
  }
  std::string nameOfOdd(size_t mode, const IndexedNode& node) const {
    return userName(odd_.graphs[mode], odd_, node);
  }

  /// "conv2d 'stride'" or "the output".
  std::string subject(const Step& s) const {
    if (!s.odd_user) return cat({"the ", s.argument});
    return cat(
        {nameOfOdd(s.mode, *s.odd_user), " '", s.argument, s.argument.back() == ']' ? "" : "'"});
  }

  void follow() {
    while (!work_.empty() && !decided()) {
      const Step step = work_.front();
      work_.pop_front();
      compare(step);
    }
    work_.clear();
  }

  void compare(const Step& s) {
    using Kind = Wire::Kind;
    if (comparePresence(s)) return;
    if (s.major.kind == Kind::Literal && s.odd.kind == Kind::Literal) return compareLiterals(s);
    if (s.major.kind == Kind::Slot && s.odd.kind == Kind::Slot) return compareSlots(s);
    if (s.major.kind == Kind::Node && s.odd.kind == Kind::Node) return compareNodes(s);
    if (s.major.kind == Kind::Input && s.odd == s.major) return;
    if (s.major.kind == Kind::Literal || s.odd.kind == Kind::Literal) {
      const auto text = [&](const IndexedMember& member, const Wire& wire) {
        const std::string what = describe(member, s.mode, wire);
        return wire.kind == Kind::Node ? cat({"computed (", what, ")"}) : what;
      };
      return report(
          make(cat({subject(s), " is ", text(odd_, s.odd), kElsewhere, text(major_, s.major)}),
               "C4", s));
    }
    // The op that stands where the others have something else says more than what it is read by.
    const bool op_is_odd = s.odd.kind == Kind::Node;
    report(make(cat({subject(s), " is ", describe(odd_, s.mode, s.odd), kElsewhere,
                     describe(major_, s.mode, s.major)}),
                "C3", s, s.major.kind == Kind::Node ? &majorNode(s) : nullptr,
                op_is_odd ? &oddNode(s) : nullptr));
  }

  // C5: an optional operand is there in one and not in the other.
  bool comparePresence(const Step& s) {
    const bool none_major = isNone(major_.graphs[s.mode], s.major);
    const bool none_odd = isNone(odd_.graphs[s.mode], s.odd);
    if (none_major == none_odd || !s.odd_user) return false;
    const std::string op = nameOfOdd(s.mode, *s.odd_user);
    const Wire& there = none_odd ? s.major : s.odd;
    if (there.kind == Wire::Kind::Literal) return false;
    const std::string what = describe(none_odd ? major_ : odd_, s.mode, there);
    report(make(presenceFinding(op, s.argument, what, none_odd), s));
    return true;
  }

  // C4.
  void compareLiterals(const Step& s) {
    if (majorNode(s).label == oddNode(s).label) return;
    const std::string values =
        cat({literalText(oddNode(s)), kElsewhere, literalText(majorNode(s))});
    Difference difference = make(cat({subject(s), " is ", values}), "C4", s);
    const std::string name = s.argument.substr(0, s.argument.find('\''));
    const std::string op = s.odd_user ? s.odd_user->node->kind().toQualString() : "";
    difference.notes.push_back(attributeNote(
        op, name, oddNode(s), mayVaryBy(s.major_user, name) && mayVaryBy(s.odd_user, name)));
    if (!isSize(name)) return report(difference);
    if (!size_) size_ = difference;
  }

  // C6 to C9.
  void compareSlots(const Step& s) {
    uint32_t& partner = slot_partner_[s.major.index];
    uint32_t& reverse = slot_reverse_[s.odd.index];
    if (partner == s.odd.index && reverse == s.major.index) return;
    if (partner != kNone || reverse != kNone) return reportTie(s);
    partner = s.odd.index;
    reverse = s.major.index;
    if (major_.slot_leaves[s.major.index] == odd_.slot_leaves[s.odd.index]) return;
    const TensorSlot& slot = odd_.member->slots[s.odd.index];
    const TensorSlot& major_slot = major_.member->slots[s.major.index];
    Finding finding = slotFinding(major_slot, slot, subject(s));
    if (s.odd_user) {
      const std::string note = recurrentNote(s.odd_user->node, major_slot, slot);
      if (!note.empty()) finding.notes.push_back(note);
    }
    if (finding.condition != "C6") return report(make(finding, s));
    // Widths follow from those before them: the one that is read first is where it begins.
    const size_t reader = s.odd_user ? indexOf(s) : kNone;
    if (shape_ && (s.mode != shape_mode_ || reader >= shape_reader_)) return;
    shape_ = make(finding, s);
    shape_mode_ = s.mode;
    shape_reader_ = reader;
  }

  /// Of the reader in the odd member's graph.
  size_t indexOf(const Step& s) const {
    return static_cast<size_t>(s.odd_user - odd_.graphs[s.mode].nodes.data());
  }

  void reportTie(const Step& s) {
    const uint32_t partner = slot_partner_[s.major.index];
    const uint32_t reverse = slot_reverse_[s.odd.index];
    const auto name = [](const IndexedMember& member, uint32_t slot) {
      return slot == kNone ? "" : inQuotes(member.member->slots[slot].name);
    };
    const std::string here = cat({subject(s), " is ", describe(odd_, s.mode, s.odd)});
    report(make(
        tieFinding(here, name(odd_, partner), name(major_, reverse), name(major_, s.major.index)),
        s));
  }

  // C2, C3.
  void compareNodes(const Step& s) {
    const IndexedNode& major = majorNode(s);
    const IndexedNode& odd = oddNode(s);
    uint32_t& partner = partner_[s.mode][s.major.index];
    uint32_t& reverse = reverse_[s.mode][s.odd.index];
    const bool known = partner == s.odd.index && reverse == s.major.index;
    const bool clash = !known && (partner != kNone || reverse != kNone);
    if (!clash && !known) {
      if (major.label != odd.label) return compareOps(s, major, odd);
      partner = s.odd.index;
      reverse = s.major.index;
    }
    if (clash || s.major.output != s.odd.output) {
      const bool one_sided = clash && (partner == kNone) != (reverse == kNone);
      const auto again = [&](uint32_t other) {
        return one_sided && other != kNone ? " a second time" : "";
      };
      return report(make(cat({subject(s), " is ", describe(odd_, s.mode, s.odd), again(reverse),
                              kElsewhere, describe(major_, s.mode, s.major), again(partner)}),
                         "C3", s));
    }
    if (!known) pushOperands(s, major, odd);
  }

  void compareOps(const Step& s, const IndexedNode& major, const IndexedNode& odd) {
    const std::string name_major = nameOfMajor(s.mode, major);
    const std::string name_odd = nameOfOdd(s.mode, odd);
    if (name_major != name_odd) {
      return report(make(cat({name_odd, " here", kElsewhere, name_major}), "C2", s, &major, &odd));
    }
    // Overloads differ because an argument does: a number here, a tensor there.
    const auto* schema = odd.node->maybeSchema();
    for (size_t i = 0; schema && i < schema->arguments().size(); ++i) {
      if (compareArgument(s, major, odd, schema->arguments()[i].name())) return;
    }
    report(
        make(cat({name_odd, " is ", odd.label, kElsewhere, major.label}), "C2", s, &major, &odd));
  }

  /// True if the two ops, of different schemas, differ in the argument of this name.
  bool compareArgument(const Step& s, const IndexedNode& major, const IndexedNode& odd,
                       const std::string& name) {
    const auto index = [&](const IndexedNode& node) {
      const auto* schema = node.node->maybeSchema();
      return schema ? schema->argumentIndexWithName(name) : std::nullopt;
    };
    const std::optional<int> in_major = index(major);
    const std::optional<int> in_odd = index(odd);
    if (!in_major || !in_odd) return false;
    const Step inner{s.mode, major.operands[*in_major], odd.operands[*in_odd], &major, &odd, name};
    const bool both_tensors =
        inner.major.kind != Wire::Kind::Literal && inner.odd.kind != Wire::Kind::Literal;
    if (!both_tensors) compare(inner);
    return decided();
  }

  void pushOperands(const Step& s, const IndexedNode& major, const IndexedNode& odd) {
    const bool is_list = major.node->kind() == torch::jit::prim::ListConstruct;
    if (major.operands.size() != odd.operands.size()) {
      return report(make(cat({subject(s), " has ", std::to_string(odd.operands.size()), " elements",
                              kElsewhere, std::to_string(major.operands.size())}),
                         "C3", s));
    }
    const bool crossed = major.commutative && odd.commutative && looksCrossed(s.mode, major, odd);
    const auto vary = [&](size_t i) {
      const auto label = [&](const IndexedMember& member, const Wire& wire) {
        return member.graphs[s.mode].nodes[wire.index].label;
      };
      return major.varying[i] && odd.varying[i] &&
             mayVary(major, odd, i, label(major_, major.operands[i]), label(odd_, odd.operands[i]));
    };
    const auto* schema = odd.node->maybeSchema();
    size_t literals = 0;  // come first: they say more than what follows from them
    for (size_t i = 0; i < major.operands.size(); ++i) {
      const size_t j = crossed && i < 2 ? 1 - i : i;
      if (!is_list && vary(i)) continue;
      if (is_list && s.odd_user) {
        work_.push_back({s.mode, major.operands[i], odd.operands[j], s.major_user, s.odd_user,
                         cat({s.argument, "'[", std::to_string(i), "]"})});
        continue;
      }
      const bool named = schema && j < schema->arguments().size();
      Step next{s.mode,
                major.operands[i],
                odd.operands[j],
                &major,
                &odd,
                named ? schema->arguments()[j].name() : cat({"operand ", std::to_string(j)})};
      const bool literal =
          next.major.kind == Wire::Kind::Literal && next.odd.kind == Wire::Kind::Literal;
      const auto position = literal ? static_cast<std::ptrdiff_t>(literals++) : -1;
      work_.insert(literal ? work_.begin() + position : work_.end(), std::move(next));
    }
  }

  bool looksCrossed(size_t mode, const IndexedNode& major, const IndexedNode& odd) const {
    const auto hash = [&](const IndexedMember& member, const NodeHashes& hashes, const Wire& wire) {
      return wireHash(member, mode, hashes[mode], member.slot_leaves, wire);
    };
    const uint64_t x0 = hash(major_, major_hashes_, major.operands[0]);
    const uint64_t x1 = hash(major_, major_hashes_, major.operands[1]);
    const uint64_t y0 = hash(odd_, odd_hashes_, odd.operands[0]);
    const uint64_t y1 = hash(odd_, odd_hashes_, odd.operands[1]);
    return x0 != y0 && x1 != y1 && (x0 == y1 || x1 == y0);
  }

  /// What no output depends on (counters, unused tensors) goes by its name, else in order.
  void pairOtherSlots() {
    std::unordered_map<std::string, uint32_t> by_name;
    std::unordered_map<uint64_t, std::deque<uint32_t>> by_leaf;
    for (uint32_t slot = 0; slot < odd_.slot_leaves.size(); ++slot) {
      if (slot_reverse_[slot] != kNone) continue;
      by_name.emplace(odd_.member->slots[slot].name, slot);
      by_leaf[odd_.slot_leaves[slot]].push_back(slot);
    }
    const auto pair = [&](uint32_t slot, uint32_t partner) {
      const std::string what = cat({"tensor ", inQuotes(odd_.member->slots[partner].name)});
      compareSlots(
          {0, {Wire::Kind::Slot, slot, 0}, {Wire::Kind::Slot, partner, 0}, nullptr, nullptr, what});
    };
    const auto n_slots = static_cast<uint32_t>(major_.slot_leaves.size());
    for (uint32_t slot = 0; slot < n_slots && !decided(); ++slot) {
      const auto found = by_name.find(major_.member->slots[slot].name);
      if (slot_partner_[slot] == kNone && found != by_name.end()) pair(slot, found->second);
    }
    for (uint32_t slot = 0; slot < n_slots && !decided(); ++slot) {
      std::deque<uint32_t>& alike = by_leaf[major_.slot_leaves[slot]];
      while (!alike.empty() && slot_reverse_[alike.front()] != kNone) alike.pop_front();
      if (slot_partner_[slot] == kNone && !alike.empty()) pair(slot, alike.front());
    }
  }

  // C11.
  void compareUpdates() {
    for (size_t mode = 0; mode < 2; ++mode) {
      const auto& in_major = major_.graphs[mode].update_of;
      const auto& in_odd = odd_.graphs[mode].update_of;
      for (uint32_t slot = 0; slot < major_.slot_leaves.size() && !decided(); ++slot) {
        const uint32_t partner = slot_partner_[slot];
        if (partner == kNone) continue;
        const auto x = in_major.find(slot);
        const auto y = in_odd.find(partner);
        if (x == in_major.end() && y == in_odd.end()) continue;
        const std::string name = inQuotes(odd_.member->slots[partner].name);
        if (x != in_major.end() && y != in_odd.end()) {
          const std::string what = cat({"new value of ", name});
          work_.push_back({mode, x->second, y->second, nullptr, nullptr, what});
          follow();
          continue;
        }
        const bool is_odd = y != in_odd.end();
        report(make(cat({name, is_odd ? " is updated" : " is not updated", kElsewhere,
                         is_odd ? "it is not" : "it is"}),
                    "C11", {mode, {}, {}, nullptr, nullptr, ""}));
      }
    }
  }

  // C12.
  void compareSlotLists() {
    std::vector<std::string> missing, extra;
    for (uint32_t slot = 0; slot < major_.slot_leaves.size(); ++slot) {
      if (slot_partner_[slot] == kNone) missing.push_back(major_.member->slots[slot].name);
    }
    for (uint32_t slot = 0; slot < odd_.slot_leaves.size(); ++slot) {
      if (slot_reverse_[slot] == kNone) extra.push_back(odd_.member->slots[slot].name);
    }
    if (missing.size() == extra.size()) return;
    report(make(slotListFinding(*major_.member, *odd_.member, missing, extra), {}));
  }

  const IndexedMember& major_;
  const IndexedMember& odd_;
  NodeHashes major_hashes_, odd_hashes_;
  std::array<std::vector<uint32_t>, 2> partner_, reverse_;
  std::vector<uint32_t> slot_partner_, slot_reverse_;
  std::deque<Step> work_;
  /// The first that says what is odd; of shapes of tensors; of sizes, which mostly follow from
  /// those.
  std::optional<Difference> found_, shape_, size_;
  size_t shape_mode_ = 0, shape_reader_ = kNone;
};

}  // namespace

Difference firstDifference(const IndexedMember& major, const IndexedMember& odd) {
  return Walk(major, odd).run();
}

}  // namespace chorus::equivalence
