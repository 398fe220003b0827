#include "lib/equivalence/modes.h"

namespace chorus {
namespace {

constexpr size_t kMostMessages = 5;

/// The first op whose flag the mode decides.
std::string flaggedOp(const Member& member) {
  for (const Node* node : member.train.graph->nodes()) {
    const std::string op = node->kind().toUnqualString();
    if (op.find("batch_norm") != std::string::npos) return "batch_norm";
    if (op.find("dropout") != std::string::npos) return "dropout";
    if (op.find("instance_norm") != std::string::npos) return "instance_norm";
  }
  return "the trace";
}

}  // namespace

void requireOneMode(const std::vector<Member>& members) {
  std::vector<size_t> trains, evaluates;
  for (size_t k = 0; k < members.size(); ++k)
    (members[k].code_trains ? trains : evaluates).push_back(k);
  if (trains.empty() || evaluates.empty()) return;
  const bool evaluating =
      evaluates.size() > trains.size() || (evaluates.size() == trains.size() && evaluates[0] == 0);
  const std::vector<size_t>& odd = evaluating ? trains : evaluates;
  const std::vector<size_t>& rest = evaluating ? evaluates : trains;
  std::vector<Message> messages;
  for (size_t i = 0; i < std::min(odd.size(), kMostMessages); ++i) {
    const Member& member = members[odd[i]];
    const char* mine = evaluating ? "True" : "False";
    const char* theirs = evaluating ? "False" : "True";
    Message message =
        error(c10::str("member ", odd[i], " differs from the other ", rest.size(), ": ",
                       flaggedOp(member), " 'training' is ", mine, ", elsewhere ", theirs),
              Place{member.path, "", "", ""});
    message.condition = "C13";
    message.note(c10::str("its trace was made in ", evaluating ? "train" : "eval", " mode"));
    messages.push_back(message.helpWith("export all members in train mode"));
  }
  if (odd.size() > kMostMessages) {
    messages.back().note(
        c10::str("the same holds for ", odd.size() - kMostMessages, " more members"));
  }
  throw Refused(messages);
}

}  // namespace chorus
