#include <numeric>

#include "chorus/equivalence.h"
#include "lib/equivalence/unify.h"
#include "lib/support/hash.h"

namespace chorus {
namespace {

size_t usesOf(const Member& member, size_t slot) {
  return member.train.slotInput(slot)->uses().size() + member.eval.slotInput(slot)->uses().size();
}

bool isConstantOfManyUses(const Member& member, size_t slot) {
  return member.slots[slot].role == Role::Constant && usesOf(member, slot) > 1;
}

bool hasConstantsOfManyUses(const Member& member) {
  for (size_t s = 0; s < member.slots.size(); ++s) {
    if (isConstantOfManyUses(member, s)) return true;
  }
  return false;
}

void copyGraphs(Member& member) {
  member.train.graph = member.train.graph->copy();
  member.eval.graph = member.eval.graph->copy();
}

/// Appends a slot with the value of `slot`, unused in both graphs.
size_t appendCopy(Member& member, size_t slot, size_t number) {
  TensorSlot copy = member.slots[slot];
  copy.name = "constant." + std::to_string(number);
  member.slots.push_back(std::move(copy));
  for (CanonicalGraph* canonical : {&member.train, &member.eval}) {
    canonical->graph->addInput()->setType(canonical->slotInput(slot)->type());
  }
  return member.slots.size() - 1;
}

/// One slot for each use of a constant, in either graph: the first use keeps the slot.
void splitByUse(Member& member) {
  copyGraphs(member);
  const size_t n_slots = member.slots.size();
  size_t number = 0;
  for (const TensorSlot& slot : member.slots) number += slot.role == Role::Constant;
  for (size_t s = 0; s < n_slots; ++s) {
    if (!isConstantOfManyUses(member, s)) continue;
    bool is_first = true;
    for (CanonicalGraph* canonical : {&member.train, &member.eval}) {
      const auto uses = canonical->slotInput(s)->uses();  // a copy: they move
      for (const torch::jit::Use& use : uses) {
        if (std::exchange(is_first, false)) continue;
        const size_t own = appendCopy(member, s, number++);
        use.user->replaceInput(use.offset, canonical->slotInput(own));
      }
    }
  }
}

/// Slots `into[s]` take over from slots s where the two are not the same; those are dropped.
void mergeSlots(Member& member, const std::vector<size_t>& into) {
  std::vector<size_t> index(into.size());
  std::vector<TensorSlot> kept;
  for (size_t s = 0; s < into.size(); ++s) {
    index[s] = kept.size();
    if (into[s] == s) kept.push_back(member.slots[s]);
  }
  for (CanonicalGraph* canonical : {&member.train, &member.eval}) {
    for (size_t s = into.size(); s-- > 0;) {
      if (into[s] == s) continue;
      canonical->slotInput(s)->replaceAllUsesWith(canonical->slotInput(into[s]));
      canonical->graph->eraseInput(canonical->n_inputs + s);
    }
    for (size_t& slot : canonical->updates) slot = index[slot];
  }
  member.slots = std::move(kept);
}

/// Constants that are equal in every one of the members (numbered as in `members`) become one slot.
void mergeAlike(std::vector<Member>& members, const std::vector<size_t>& numbers,
                const Certificate& certificate) {
  const size_t n_slots = members[numbers[0]].slots.size();
  std::map<std::vector<uint64_t>, std::vector<size_t>> classes;  // slots of the first member
  for (size_t s = 0; s < n_slots; ++s) {
    if (members[numbers[0]].slots[s].role != Role::Constant) continue;
    std::vector<uint64_t> hashes;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const uint32_t own = certificate.members[i].slots[s];
      hashes.push_back(hashTensor(members[numbers[i]].slots[own].value));
    }
    classes[hashes].push_back(s);
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::vector<uint32_t>& map = certificate.members[i].slots;
    std::vector<size_t> into(n_slots);
    std::iota(into.begin(), into.end(), 0);
    for (const auto& [hashes, slots] : classes) {
      size_t lowest = n_slots;
      for (const size_t s : slots) lowest = std::min<size_t>(lowest, map[s]);
      for (const size_t s : slots) into[map[s]] = lowest;
    }
    mergeSlots(members[numbers[i]], into);
  }
}

std::vector<Member> copied(const std::vector<Member>& members, const std::vector<size_t>& numbers) {
  std::vector<Member> some;
  for (const size_t k : numbers) some.push_back(members[k]);
  return some;
}

bool hasMomentum(const Member& member) {
  const auto is_norm = [](const Node* node) {
    return node->kind().toQualString() == std::string("aten::_native_batch_norm_legit_functional");
  };
  return std::ranges::any_of(member.train.graph->nodes(), is_norm);
}

/// Sets of at least two of `groups` (by number) that are one group once `rewrite` was applied to
/// their members. Tried only where `applies` is true of some.
std::vector<ProvedGroup> groupsJoinedBy(const std::vector<Member>& members,
                                        const std::vector<ProvedGroup>& groups,
                                        bool (*applies)(const Member&), void (*rewrite)(Member&)) {
  std::vector<Member> firsts;
  for (const ProvedGroup& group : groups) firsts.push_back(members[group.members[0]]);
  if (!std::ranges::any_of(firsts, applies)) return {};
  for (Member& member : firsts) rewrite(member);
  std::vector<ProvedGroup> joined = proveGroups(firsts);
  std::erase_if(joined, [](const ProvedGroup& group) { return group.members.size() < 2; });
  return joined;
}

/// All members of the groups that are joined, ascending.
std::vector<size_t> membersOf(const ProvedGroup& joined, const std::vector<ProvedGroup>& groups) {
  std::vector<size_t> numbers;
  for (const size_t g : joined.members) {
    numbers.insert(numbers.end(), groups[g].members.begin(), groups[g].members.end());
  }
  std::ranges::sort(numbers);
  return numbers;
}

bool separateConstants(std::vector<Member>& members, const std::vector<ProvedGroup>& groups) {
  const std::vector<ProvedGroup> joined =
      groupsJoinedBy(members, groups, hasConstantsOfManyUses, splitByUse);
  for (const ProvedGroup& some : joined) {
    const std::vector<size_t> numbers = membersOf(some, groups);
    for (const size_t k : numbers) splitByUse(members[k]);
    for (const ProvedGroup& group : proveGroups(copied(members, numbers))) {
      std::vector<size_t> mine;
      for (const size_t i : group.members) mine.push_back(numbers[i]);
      mergeAlike(members, mine, group.certificate);
    }
  }
  return !joined.empty();
}

std::vector<ProvedGroup> momentaJoin(const std::vector<Member>& members,
                                     const std::vector<ProvedGroup>& groups) {
  return groupsJoinedBy(members, groups, hasMomentum, equivalence::unifyMomentum);
}

bool unifyMomenta(std::vector<Member>& members, const std::vector<ProvedGroup>& groups) {
  const std::vector<ProvedGroup> joined = momentaJoin(members, groups);
  for (const ProvedGroup& some : joined) {
    for (const size_t k : membersOf(some, groups)) equivalence::unifyMomentum(members[k]);
  }
  return !joined.empty();
}

bool unifyDropouts(std::vector<Member>& members, const std::vector<ProvedGroup>& groups) {
  const std::vector<ProvedGroup> joined =
      groupsJoinedBy(members, groups, equivalence::hasIdleDropout, equivalence::unifyDropout);
  for (const ProvedGroup& some : joined) {
    for (const size_t k : membersOf(some, groups)) equivalence::unifyDropout(members[k]);
  }
  return !joined.empty();
}

}  // namespace

std::vector<ProvedGroup> proveGroupsUnifying(std::vector<Member>& members, bool mixed_momentum) {
  std::vector<ProvedGroup> groups = proveGroups(members);
  for (const auto unify : {unifyDropouts, separateConstants, unifyMomenta, separateConstants}) {
    if (unify == unifyMomenta && !mixed_momentum) continue;
    if (groups.size() > 1 && unify(members, groups)) groups = proveGroups(members);
  }
  return groups;
}

Certificate proveUnifying(std::vector<Member>& members, bool mixed_momentum) {
  const std::vector<ProvedGroup> groups = proveGroupsUnifying(members, mixed_momentum);
  if (groups.size() == 1) return groups[0].certificate;
  try {
    return prove(members);
  } catch (const Refused& refused) {
    if (mixed_momentum || momentaJoin(members, groups).empty()) throw;
    std::vector<Message> messages = refused.messages();
    messages.front().note(
        "a batch norm with momentum None takes the mean over all batches, others a moving one; "
        "where "
        "that is meant, --mixed-momentum fuses the two");
    throw Refused(std::move(messages));
  }
}

}  // namespace chorus
