#include "lib/partial/partial.h"

#include <torch/csrc/jit/ir/constants.h>

#include "lib/partial/combine.h"
#include "lib/partial/cost.h"
#include "lib/support/choice.h"
#include "lib/support/graph_order.h"

namespace chorus {
namespace {

using namespace partial;

/// As code returns them, which recanonicalise takes: all outputs as one list.
void returnList(Graph& graph) {
  const std::vector<Value*> outputs = graph.outputs().vec();
  const torch::jit::WithInsertPoint end(graph.return_node());
  Node* list = graph.insertNode(graph.createList(c10::TensorType::get(), outputs));
  while (!graph.outputs().empty()) graph.eraseOutput(graph.outputs().size() - 1);
  graph.registerOutput(list->output());
}

/// A member within its group of equal ones.
struct Within {
  size_t variant = 0;
  const MemberMap* map = nullptr;  ///< from the group's first member
  bool own_numbers = false;
};

std::vector<Within> placesOf(const std::vector<ProvedGroup>& groups, size_t k) {
  std::vector<Within> places(k);
  for (size_t v = 0; v < groups.size(); ++v) {
    const ProvedGroup& group = groups[v];
    for (size_t i = 0; i < group.members.size(); ++i) {
      places[group.members[i]] = {v, &group.certificate.members[i],
                                  i > 0 && !group.certificate.attributes.empty()};
    }
  }
  return places;
}

class Combining {
 public:
  Combining(const std::vector<Member>& members, const std::vector<ProvedGroup>& groups)
      : members_(members), places_(placesOf(groups, members.size())) {
    std::vector<const Member*> firsts;
    for (const ProvedGroup& group : groups) {
      firsts.push_back(&members[group.members.front()]);
      counts_.push_back(group.members.size());
    }
    all_ = outline(firsts, counts_);
    table_ = slotTable(all_);
  }

  Combined run() {
    Combined made;
    made.variants = counts_.size();
    made.notes = all_.notes;
    const Balance balance = balanceOf(all_, counts_);
    made.common_ops = balance.common;
    made.apart_ops = balance.apart;
    made.saved = balance.saved;
    made.spent = balance.spent;
    for (size_t k = 0; k < members_.size(); ++k) {
      made.members.push_back(combined(k));
      made.partial.push_back(layoutOf(k));
    }
    return made;
  }

 private:
  /// Member k's slot in the place of slot s of its variant.
  const TensorSlot& slotOf(size_t k, size_t s) const {
    return members_[k].slots.at(places_[k].map->slots.at(s));
  }

  at::Tensor valueOf(size_t k, const FusedSlot& slot) const {
    const auto& own = slot.of[places_[k].variant];
    if (!slot.packed) return slotOf(k, *own).value.detach();
    const auto some = std::ranges::find_if(slot.of, [](const auto& s) { return s.has_value(); });
    const auto v = static_cast<size_t>(some - slot.of.begin());
    const at::Tensor row =
        at::zeros(slot.sizes, all_.variants[v]->slots[**some].value.options().requires_grad(false));
    if (own) {
      const at::Tensor flat = slotOf(k, *own).value.detach().reshape(-1);
      row.narrow(0, 0, flat.numel()).copy_(flat);
    }
    return row;
  }

  std::vector<TensorSlot> slotsOf(size_t k) const {
    const at::NoGradGuard no_grad;
    std::vector<TensorSlot> slots;
    for (const FusedSlot& slot : table_.slots) {
      slots.push_back(slot.slot);
      slots.back().value = valueOf(k, slot);
    }
    return slots;
  }

  /// Numbers of member k that differ from those of its variant's first member.
  Numbers numbersOf(size_t k, size_t mode) const {
    const Within& place = places_[k];
    if (!place.own_numbers) return nullptr;
    const Member& first = *all_.variants[place.variant];
    const auto graphOf = [&](const Member& member) -> const Graph& {
      return *(mode == 0 ? member.train : member.eval).graph;
    };
    const std::vector<Node*> theirs = nodesInOrder(graphOf(first)),
                             mine = nodesInOrder(graphOf(members_[k]));
    const std::vector<uint32_t>& map = mode == 0 ? place.map->train_nodes : place.map->eval_nodes;
    std::unordered_map<const Node*, const Node*> partner;
    for (size_t i = 0; i < theirs.size(); ++i) {
      if (map[i] != kNoNode) partner[theirs[i]] = mine.at(map[i]);
    }
    return [partner](const Node* node, size_t operand) -> std::optional<c10::IValue> {
      const auto found = partner.find(node);
      if (found == partner.end()) return std::nullopt;
      const auto number = torch::jit::toIValue(found->second->inputs().at(operand));
      const auto before = torch::jit::toIValue(node->inputs().at(operand));
      const bool numbers = number && before && number->isScalar() && before->isScalar();
      return numbers ? number : std::nullopt;
    };
  }

  CanonicalGraph graphOf(size_t k, size_t mode, const std::vector<TensorSlot>& slots) {
    const Within& place = places_[k];
    const std::pair<size_t, size_t> key{place.variant, mode};
    if (const auto known = graphs_.find(key); known != graphs_.end() && !place.own_numbers)
      return known->second;
    const CanonicalGraph raw = combine(all_, table_, mode, place.variant, numbersOf(k, mode));
    const Member& first = *all_.variants[0];
    const std::shared_ptr<Graph> lowered = lowerChoices(*raw.graph);
    returnList(*lowered);
    const CanonicalGraph made =
        canonicalChoices(lowered, raw, first.inputs, slots, mode == 0, batchOf(), counts_.size());
    if (!place.own_numbers) graphs_[key] = made;
    return made;
  }

  int64_t batchOf() const {
    const Member& first = *all_.variants[0];
    return first.fixed_batch.value_or(first.example_batch);
  }

  Member combined(size_t k) {
    Member member = *all_.variants[0];
    member.name = members_[k].name;
    member.path = members_[k].path;
    member.seed = members_[k].seed;
    member.remarks.clear();
    for (const Member* other : all_.variants) {
      member.code_evaluates = member.code_evaluates && other->code_evaluates;
      if (!other->fixed_batch) continue;
      member.fixed_batch = other->fixed_batch;
      member.fixed_batch_place = other->fixed_batch_place;
    }
    member.slots = slotsOf(k);
    member.train = graphOf(k, 0, member.slots);
    member.eval = graphOf(k, 1, member.slots);
    return member;
  }

  PartialMember layoutOf(size_t k) const {
    const Within& place = places_[k];
    PartialMember layout;
    layout.variant = place.variant;
    layout.modules = members_[k].modules;
    layout.traced = members_[k].traced;
    layout.tensors.resize(members_[k].slots.size());
    for (size_t s = 0; s < place.map->slots.size(); ++s) {
      OwnTensor& tensor = layout.tensors.at(place.map->slots[s]);
      tensor.slot = slotOf(k, s);
      tensor.sizes = tensor.slot.value.sizes().vec();
      tensor.slot.value = at::Tensor();
      tensor.in = table_.number[place.variant][s];
      tensor.packed = table_.slots[tensor.in].packed;
    }
    return layout;
  }

  const std::vector<Member>& members_;
  std::vector<Within> places_;
  std::vector<size_t> counts_;
  Outline all_;
  SlotTable table_;
  std::map<std::pair<size_t, size_t>, CanonicalGraph> graphs_;
};

}  // namespace

Combined combineMembers(const std::vector<Member>& members,
                        const std::vector<ProvedGroup>& groups) {
  if (groups.size() < 2) throw Refused(internalError("the members of --partial are equal"));
  return Combining(members, groups).run();
}

}  // namespace chorus
