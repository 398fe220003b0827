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
  std::vector<equivalence::VaryingPlace> places;
  std::vector<size_t> members;
  std::vector<MemberMap> maps;
  std::vector<std::vector<std::string>> values;  ///< per member: keys at `places`
  std::vector<uint64_t> constants;               ///< hashes, in the first one's slot order
  std::set<uint32_t> varying_constants;

  void add(const IndexedMember& member, size_t k, MemberMap map);
};

void Group::add(const IndexedMember& member, size_t k, MemberMap map) {
  std::vector<uint64_t> hashes;
  for (uint32_t s = 0; s < map.slots.size(); ++s) {
    const TensorSlot& tensor = member.member->slots[map.slots[s]];
    if (tensor.role != Role::Constant) continue;
    hashes.push_back(hashTensor(tensor.value));
    map.tensor_hash = mixHash(map.tensor_hash, hashes.back());
    const size_t i = hashes.size() - 1;
    if (!members.empty() && hashes[i] != constants[i]) varying_constants.insert(s);
  }
  if (members.empty()) constants = std::move(hashes);
  values.push_back(equivalence::varyingValues(member, map, places));
  members.push_back(k);
  maps.push_back(std::move(map));
}

/// The places at which the values are not all the same.
std::vector<VaryingAttribute> varyingAttributes(const Group& group) {
  std::vector<VaryingAttribute> attributes;
  for (size_t i = 0; i < group.places.size(); ++i) {
    const equivalence::VaryingPlace& place = group.places[i];
    VaryingAttribute attribute{static_cast<uint32_t>(place.mode), place.node, place.operand, {}};
    for (const auto& mine : group.values) attribute.values.push_back(mine[i]);
    const auto differs = [&](const std::string& value) { return value != attribute.values[0]; };
    if (std::ranges::any_of(attribute.values, differs)) attributes.push_back(std::move(attribute));
  }
  return attributes;
}

/// Equal structural hashes say that a match is worth trying; only the match decides.
std::vector<Group> groupMembers(const std::vector<Member>& members) {
  std::vector<Group> groups;
  std::unordered_map<uint64_t, std::vector<size_t>> by_hash;
  for (size_t k = 0; k < members.size(); ++k) {
    IndexedMember indexed = equivalence::indexMember(members[k]);
    const uint64_t mode = members[k].code_trains ? 1 : 0;  // C13
    std::vector<size_t>& candidates = by_hash[mixHash(equivalence::structuralHash(indexed), mode)];
    bool found = false;
    for (size_t c = 0; c < candidates.size() && !found; ++c) {
      Group& group = groups[candidates[c]];
      std::optional<MemberMap> map = equivalence::match(group.first, indexed);
      if (!map) continue;
      group.add(indexed, k, std::move(*map));
      found = true;
    }
    if (found) continue;
    std::optional<MemberMap> self = equivalence::match(indexed, indexed);
    candidates.push_back(groups.size());
    Group group;
    group.first = std::move(indexed);
    group.places = equivalence::varyingPlaces(group.first);
    group.add(group.first, k, std::move(*self));
    groups.push_back(std::move(group));
  }
  return groups;
}

Certificate certificateOf(const Group& group) {
  return {group.maps,
          varyingAttributes(group),
          {group.varying_constants.begin(), group.varying_constants.end()}};
}

}  // namespace

std::vector<ProvedGroup> proveGroups(const std::vector<Member>& members) {
  std::vector<ProvedGroup> proved;
  for (const Group& group : groupMembers(members)) {
    proved.push_back({group.members, certificateOf(group)});
  }
  // They come by their first member.
  std::ranges::stable_sort(proved, std::greater(),
                           [](const ProvedGroup& group) { return group.members.size(); });
  return proved;
}

Certificate prove(const std::vector<Member>& members) {
  if (members.empty()) throw Refused(internalError("nothing to prove: no members"));
  requireOneMode(members);
  std::vector<Group> groups = groupMembers(members);
  if (groups.size() == 1) return certificateOf(groups[0]);
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
