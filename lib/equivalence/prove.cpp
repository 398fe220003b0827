#include "chorus/equivalence.h"

#include "lib/equivalence/explain.h"
#include "lib/equivalence/match.h"
#include "lib/equivalence/modes.h"
#include "lib/equivalence/structural_hash.h"
#include "lib/support/hash.h"

namespace chorus {
namespace {

using equivalence::IndexedMember;

/// Members that match one another; maps go from the first one.
struct Group {
  IndexedMember first;
  std::vector<size_t> members;
  std::vector<MemberMap> maps;
};

uint64_t constantsHash(const Member& member, const std::vector<uint32_t>& slots) {
  uint64_t hash = 0;
  for (const uint32_t slot : slots) {
    const TensorSlot& tensor = member.slots[slot];
    if (tensor.role == Role::Constant) hash = mixHash(hash, hashTensor(tensor.value));
  }
  return hash;
}

/// Equal structural hashes say that a match is worth trying; only the match decides.
std::vector<Group> groupMembers(const std::vector<Member>& members) {
  std::vector<Group> groups;
  std::unordered_map<uint64_t, std::vector<size_t>> by_hash;
  for (size_t k = 0; k < members.size(); ++k) {
    IndexedMember indexed = equivalence::indexMember(members[k]);
    std::vector<size_t>& candidates = by_hash[equivalence::structuralHash(indexed)];
    bool found = false;
    for (size_t c = 0; c < candidates.size() && !found; ++c) {
      Group& group = groups[candidates[c]];
      std::optional<MemberMap> map = equivalence::match(group.first, indexed);
      if (!map) continue;
      map->tensor_hash = constantsHash(members[k], map->slots);
      group.members.push_back(k);
      group.maps.push_back(std::move(*map));
      found = true;
    }
    if (found) continue;
    std::optional<MemberMap> self = equivalence::match(indexed, indexed);
    self->tensor_hash = constantsHash(members[k], self->slots);
    candidates.push_back(groups.size());
    groups.push_back({std::move(indexed), {k}, {std::move(*self)}});
  }
  return groups;
}

}  // namespace

Certificate prove(const std::vector<Member>& members) {
  if (members.empty()) throw Refused(internalError("nothing to prove: no members"));
  requireOneMode(members);
  std::vector<Group> groups = groupMembers(members);
  if (groups.size() == 1) {
    return {equivalence::structuralHash(groups[0].first), std::move(groups[0].maps)};
  }
  std::vector<std::vector<size_t>> numbers;
  for (const Group& group : groups) numbers.push_back(group.members);
  // Of equally large groups the one with the lowest member number is the majority; the rest stay in
  // order.
  const auto larger = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const auto majority = std::max_element(numbers.begin(), numbers.end(), larger);
  std::rotate(numbers.begin(), majority, majority + 1);
  throw Refused(equivalence::explainGroups(members, numbers));
}

}  // namespace chorus
