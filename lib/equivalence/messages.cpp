// Differences as messages: majority first, then the odd ones out.
#include "lib/equivalence/explain.h"
#include "lib/equivalence/text.h"

namespace chorus::equivalence {
namespace {

constexpr size_t kMostGroups = 5;
constexpr size_t kMostNames = 3;

/// "3", "3 and 5", "3, 5 and 7", "3, 5, 7 and 12 more".
std::string enumerate(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMostNames);
  const size_t rest = names.size() - shown;
  std::string text = names.front();
  for (size_t i = 1; i < shown; ++i) {
    text += cat({i + 1 == shown && rest == 0 ? " and " : ", ", names[i]});
  }
  return rest == 0 ? text : cat({text, " and ", std::to_string(rest), " more"});
}

/// "member 3 differs from the other 7".
std::string headline(const std::vector<size_t>& odd, const std::vector<size_t>& majority,
                     size_t n_members) {
  std::vector<std::string> numbers;
  for (const size_t k : odd) numbers.push_back(std::to_string(k));
  std::string text = odd.size() == 1 ? cat({"member ", numbers[0], " differs from "})
                                     : cat({"members ", enumerate(numbers), " differ from "});
  if (majority.size() == 1) return cat({text, "member ", std::to_string(majority[0])});
  const bool all_others = odd.size() + majority.size() == n_members;
  return cat(
      {text, all_others ? "the other " : "the majority of ", std::to_string(majority.size())});
}

std::string others(const Member& member, size_t number, const Place& place) {
  std::string text = cat({"in the others, e.g. member ", std::to_string(number), ": "});
  text += place.source.empty() ? member.path : place.source;
  return place.module_path.empty() ? text : cat({text, ", at ", place.module_path});
}

std::vector<std::string> pathsOf(const std::vector<Member>& members,
                                 const std::vector<size_t>& group) {
  std::vector<std::string> paths;
  for (const size_t k : group) {
    const Member& member = members[k];
    paths.push_back(member.path.empty() ? member.name : member.path);
  }
  return paths;
}

}  // namespace

std::vector<Message> explainGroups(const std::vector<Member>& members,
                                   const std::vector<std::vector<size_t>>& groups) {
  const std::vector<size_t>& majority = groups.front();
  const IndexedMember major = indexMember(members[majority.front()]);
  std::vector<Message> messages;
  for (size_t g = 1; g < groups.size() && messages.size() < kMostGroups; ++g) {
    const std::vector<size_t>& group = groups[g];
    const Difference difference = firstDifference(major, indexMember(members[group.front()]));
    Message message = error(cat({headline(group, majority, members.size()), ": ", difference.text}),
                            difference.odd_place);
    message.condition = difference.condition;
    if (!difference.odd_place.module_path.empty()) {
      message.note(cat({"here at ", difference.odd_place.module_path}));
    }
    message.note(others(members[majority.front()], majority.front(), difference.major_place));
    for (const std::string& note : difference.notes) message.note(note);
    const std::vector<std::string> paths = pathsOf(members, group);
    if (paths.size() > 1) message.note(cat({"the members are ", enumerate(paths)}));
    message.helpWith(majority.size() > 1 || group.size() > 1
                         ? cat({"--group trains ", enumerate(paths), " apart"})
                         : "no two members are alike here; --group trains each apart");
    messages.push_back(std::move(message));
  }
  if (groups.size() > kMostGroups + 1) {
    size_t rest = 0;
    for (size_t g = kMostGroups + 1; g < groups.size(); ++g) rest += groups[g].size();
    const size_t ways = groups.size() - kMostGroups - 1;
    messages.push_back(
        error(cat({std::to_string(rest),
                   rest == 1 ? " more member differs, in " : " more members differ, in ",
                   std::to_string(ways), ways == 1 ? " more way" : " more ways"})));
  }
  return messages;
}

}  // namespace chorus::equivalence
