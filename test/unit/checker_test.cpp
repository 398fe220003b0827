#include "chorus/checker.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "chorus/equivalence.h"
#include "test/unit/prove_cases.h"

namespace chorus::test {
namespace {

std::vector<Member> equalMembers(size_t k) {
  std::vector<Member> members;
  for (size_t i = 0; i < k; ++i) members.push_back(memberOf(network(), "m" + std::to_string(i)));
  return members;
}

/// All single entries of a certificate, as places to write to.
std::vector<uint32_t*> entriesOf(Certificate& certificate) {
  std::vector<uint32_t*> entries;
  for (MemberMap& map : certificate.members) {
    for (auto* list : {&map.train_nodes, &map.eval_nodes, &map.slots}) {
      for (uint32_t& entry : *list) entries.push_back(&entry);
    }
  }
  return entries;
}

TEST(Checker, AcceptsWhatTheProverFinds) {
  const std::vector<Member> members = equalMembers(3);
  EXPECT_EQ(checkCertificate(prove(members), members), "");
}

TEST(Checker, RejectsEveryChangeOfOneEntry) {
  const std::vector<Member> members = equalMembers(2);
  const Certificate valid = prove(members);
  Certificate changed = valid;
  size_t tried = 0;
  for (uint32_t* entry : entriesOf(changed)) {
    const uint32_t kept = *entry;
    for (uint32_t value = 0; value < 28; ++value) {  // beyond the number of nodes
      if (value == kept) continue;
      *entry = value;
      EXPECT_NE(checkCertificate(changed, members), "");
      ++tried;
    }
    *entry = kNoNode;
    EXPECT_EQ(checkCertificate(changed, members).empty(), kept == kNoNode);
    *entry = kept;
  }
  EXPECT_GT(tried, 2000u);
  EXPECT_EQ(checkCertificate(changed, members), "");
}

TEST(Checker, RejectsWrongHashesLengthsAndCounts) {
  const std::vector<Member> members = equalMembers(2);
  const Certificate valid = prove(members);
  for (int bit = 0; bit < 64; ++bit) {
    Certificate changed = valid;
    changed.members[1].tensor_hash ^= uint64_t{1} << bit;
    EXPECT_NE(checkCertificate(changed, members), "");
  }
  for (auto list : {&MemberMap::train_nodes, &MemberMap::eval_nodes, &MemberMap::slots}) {
    Certificate changed = valid;
    (changed.members[1].*list).pop_back();
    EXPECT_NE(checkCertificate(changed, members), "");
    changed = valid;
    (changed.members[1].*list).push_back(0);
    EXPECT_NE(checkCertificate(changed, members), "");
  }
  Certificate changed = valid;
  changed.members.pop_back();
  EXPECT_NE(checkCertificate(changed, members), "");
}

/// Two entries exchanged: may be another proof only where the places are symmetric (here: left and
/// right).
TEST(Checker, RejectsExchangedEntriesUnlessTheyAreASymmetry) {
  const std::vector<Member> members = equalMembers(2);
  const Certificate valid = prove(members);
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    Certificate changed = valid;
    std::vector<uint32_t*> entries = entriesOf(changed);
    std::swap(*entries[random() % entries.size()], *entries[random() % entries.size()]);
    if (changed == valid) continue;
    EXPECT_NE(checkCertificate(changed, members), "");
  }
}

class CheckerAgainstChanged : public testing::TestWithParam<Case> {};

/// The plain map from position to position, or the map of the unchanged member, does not prove a
/// changed one.
TEST_P(CheckerAgainstChanged, RejectsTheMapOfTheUnchangedMember) {
  const std::vector<Member> members = {memberOf(network(), "m0"),
                                       memberOf(GetParam().changed, "m1")};
  const Certificate certificate = prove(equalMembers(2));
  EXPECT_NE(checkCertificate(certificate, members), "");
  Certificate plain = certificate;
  const auto count = [](const CanonicalGraph& canonical) {
    return static_cast<uint32_t>(
        std::distance(canonical.graph->nodes().begin(), canonical.graph->nodes().end()));
  };
  plain.members[1].train_nodes.resize(count(members[0].train));
  for (uint32_t i = 0; i < plain.members[1].train_nodes.size(); ++i)
    plain.members[1].train_nodes[i] = i;
  EXPECT_NE(checkCertificate(plain, members), "");
}

INSTANTIATE_TEST_SUITE_P(Checker, CheckerAgainstChanged, testing::ValuesIn(refusedCases()),
                         [](const auto& info) { return info.param.name; });

TEST(Checker, RejectsAMemberChangedAfterTheProof) {
  std::vector<Member> members = equalMembers(2);
  const Certificate certificate = prove(members);
  members[1].slots[8].value = members[1].slots[8].value.clone();
  members[1].slots[8].value[0][0] += 1;
  EXPECT_EQ(checkCertificate(certificate, members),
            "member 1: slot 8 ('" + members[0].slots[8].name + "'): other bytes");
}

TEST(Checker, SaysWhichOpAndOperand) {
  Net net = network();
  const Member first = memberOf(net, "m0");
  const Certificate certificate = prove({first, memberOf(net, "m1")});
  FaultPlace place;
  const auto wrong = [&](const char* what, const char* by) {
    Net other = net;
    other.train = replaced(other.train, what, by);
    return checkCertificate(certificate, {first, memberOf(other, "m1")}, &place);
  };
  std::string text = wrong("aten::relu(", "aten::tanh(");
  EXPECT_NE(text.find(" (aten::relu): aten::relu is mapped to aten::tanh"), std::string::npos)
      << text;
  text = wrong("aten::softmax(%12, %one,", "aten::softmax(%12, %zero,");
  EXPECT_NE(text.find(" (aten::softmax.int): other operand 1"), std::string::npos) << text;
  EXPECT_EQ(text.find("member 1: train graph: node "), 0u) << text;
  EXPECT_EQ(place.member, 1u);
  EXPECT_FALSE(place.in_eval);
  ASSERT_TRUE(place.node && place.operand);
  EXPECT_EQ(*place.operand, 1u);
  EXPECT_EQ(text.find(c10::str("member 1: train graph: node ", *place.node, " ")), 0u) << text;
}

TEST(CertificateJson, RoundTrip) {
  const Certificate certificate = prove(equalMembers(3));
  const nlohmann::json json = toJson(certificate);
  EXPECT_EQ(json.at("maps").size(), 1u);
  EXPECT_EQ(certificateFromJson(nlohmann::json::parse(json.dump())), certificate);
}

TEST(CertificateJson, RefusesDamage) {
  const nlohmann::json valid = toJson(prove(equalMembers(2)));
  for (const char* key : {"maps", "members", "attributes", "constants"}) {
    nlohmann::json json = valid;
    json.erase(key);
    EXPECT_THROW(certificateFromJson(json), Refused);
    json[key] = -7;
    EXPECT_THROW(certificateFromJson(json), Refused);
  }
  nlohmann::json json = valid;
  json["members"][1] = 9;
  EXPECT_THROW(certificateFromJson(json), Refused);
  json = valid;
  json["maps"][0]["slots"][0] = -2;
  EXPECT_THROW(certificateFromJson(json), Refused);
  json = valid;
  json["maps"][0]["tensor_hash"] = "0x12";
  EXPECT_THROW(certificateFromJson(json), Refused);
}

}  // namespace
}  // namespace chorus::test
