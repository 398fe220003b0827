#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "chorus/equivalence.h"
#include "test/unit/prove_cases.h"

namespace chorus::test {
namespace {

std::vector<Message> refusal(const std::vector<Member>& members) {
  try {
    prove(members);
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.exitCode(), 1) << refused.what();
    return refused.messages();
  }
  ADD_FAILURE() << "the members were proved equal";
  return {};
}

class Refusal : public testing::TestWithParam<Case> {};

TEST_P(Refusal, NamesTheFirstDifference) {
  const Case& c = GetParam();
  std::vector<Member> members;
  for (const char* name : {"m0", "m1", "m2"}) members.push_back(memberOf(network(), name));
  members.push_back(memberOf(c.changed, "m3"));
  const std::vector<Message> messages = refusal(members);
  ASSERT_EQ(messages.size(), 1u);
  const Message& message = messages[0];
  EXPECT_EQ(message.text.find("member 3 differs from the other 3: "), 0u) << message.text;
  EXPECT_NE(message.text.find(c.text), std::string::npos) << message.text;
  EXPECT_EQ(message.condition, c.condition) << message.text;
  EXPECT_EQ(message.place.file, "m3.pt");
  EXPECT_NE(structuralHash(members[3]), structuralHash(members[0]));
}

TEST_P(Refusal, DoesNotDependOnTheOrder) {
  const Case& c = GetParam();
  for (size_t odd = 0; odd < 3; ++odd) {
    std::vector<Member> members;
    for (size_t k = 0; k < 3; ++k) {
      members.push_back(memberOf(k == odd ? c.changed : network(), "m" + std::to_string(k)));
    }
    const std::vector<Message> messages = refusal(members);
    ASSERT_EQ(messages.size(), 1u);
    EXPECT_EQ(messages[0].place.file, "m" + std::to_string(odd) + ".pt");
    EXPECT_EQ(messages[0].condition, c.condition);
  }
}

TEST_P(Refusal, OfTwoMembersTheFirstIsTheMajority) {
  const Case& c = GetParam();
  const std::vector<Message> messages =
      refusal({memberOf(network(), "m0"), memberOf(c.changed, "m1")});
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].text.find("member 1 differs from member 0: "), 0u) << messages[0].text;
}

INSTANTIATE_TEST_SUITE_P(Prove, Refusal, testing::ValuesIn(refusedCases()),
                         [](const auto& info) { return info.param.name; });

TEST(ProveMessage, WholeText) {
  std::vector<Member> members;
  for (const char* name : {"m0", "m1", "m2"}) members.push_back(memberOf(network(), name));
  members.push_back(memberOf(refusedCases()[1].changed, "m3"));
  const std::vector<Message> messages = refusal(members);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(format(messages[0]),
            "m3.pt: error: member 3 differs from the other 3: conv2d 'stride' is [2, 2], elsewhere "
            "[1, 1] [C4]\n"
            "  note: in the others, e.g. member 0: m0.pt\n"
            "  note: 'stride' decides the result's shape, so all members must agree on it\n"
            "  help: --group trains m3.pt apart\n");
}

TEST(ProveMessage, GroupsOddMembersAndCountsTheRest) {
  const std::vector<Case> cases = refusedCases();
  std::vector<Member> members;
  for (size_t k = 0; k < 4; ++k) members.push_back(memberOf(network(), "a" + std::to_string(k)));
  for (size_t g = 0; g < 7; ++g) {
    for (size_t i = 0; i < 2; ++i) members.push_back(memberOf(cases[g].changed, cases[g].name));
  }
  const std::vector<Message> messages = refusal(members);
  ASSERT_EQ(messages.size(), 6u);
  EXPECT_EQ(messages[0].text,
            "members 4 and 5 differ from the majority of 4: tanh here, elsewhere relu");
  EXPECT_EQ(messages[5].text, "2 more members differ, in 1 more way");
}

/// Members of three kinds in a hundred orders: the same groups, and the same ones are odd.
TEST(ProveOrder, VerdictsDoNotDependOnIt) {
  const std::vector<Case> cases = refusedCases();
  std::vector<Member> members;
  std::map<std::string, std::string> kind_of;
  for (size_t k = 0; k < 9; ++k) {
    const size_t kind = k < 4 ? 0 : k < 7 ? 1 : 2;
    const std::string name = "m" + std::to_string(k);
    members.push_back(memberOf(kind == 0 ? network() : cases.at(kind * 3).changed, name));
    kind_of[name] = std::to_string(kind);
  }
  std::mt19937 random(5);
  for (int i = 0; i < 100; ++i) {
    std::ranges::shuffle(members, random);
    std::vector<std::string> groups;
    for (const ProvedGroup& group : proveGroups(members)) {
      std::string kinds;
      for (const size_t k : group.members) kinds += kind_of.at(members[k].name);
      groups.push_back(kinds);
    }
    EXPECT_EQ(groups, (std::vector<std::string>{"0000", "111", "22"}));
    std::set<std::string> odd;
    const std::vector<Message> messages = refusal(members);
    for (const Message& message : messages) {
      odd.insert(message.condition + message.text.substr(message.text.find(": ")));
    }
    EXPECT_EQ(messages.size(), 2u);
    static const std::set<std::string> first = odd;
    EXPECT_EQ(odd, first);
  }
}

}  // namespace
}  // namespace chorus::test
