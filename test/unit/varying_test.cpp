#include <gtest/gtest.h>

#include "chorus/varying_policy.h"
#include "lib/batching/varying.h"
#include "lib/export/varying.h"
#include "test/unit/hand_made.h"

namespace chorus::test {
namespace {

/// The linear net whose statistics move by a rate of member k's own.
Member memberWithRate(int64_t k, double rate) {
  Member member = linearMember(k);
  for (Node* node : member.train.graph->nodes()) {
    if (node->kind() != c10::aten::mul) continue;
    const torch::jit::WithInsertPoint here(node);
    node->replaceInput(1, member.train.graph->insertConstant(rate));
  }
  return member;
}

FusedModel fused(const std::vector<double>& rates, int64_t first = 0) {
  std::vector<Member> members;
  for (const double rate : rates) members.push_back(memberWithRate(first++, rate));
  FusedModel model = stackMembers(members);
  Certificate certificate;
  VaryingAttribute attribute{0, 0, 1, {}};
  for (const Node* node : members[0].train.graph->nodes()) {
    if (node->kind() == c10::aten::mul) break;
    ++attribute.node;
  }
  for (const double rate : rates) {
    char key[20];
    std::snprintf(key, sizeof key, "d%016llx",
                  static_cast<unsigned long long>(std::bit_cast<uint64_t>(rate)));
    attribute.values.push_back(key);
  }
  if (std::set<double>(rates.begin(), rates.end()).size() > 1) certificate.attributes = {attribute};
  model.varying = varyingNumbers(certificate, members[0]);
  return model;
}

/// seen after one step in train mode, [K,3].
at::Tensor moved(const FusedModel& model) {
  torch::jit::Module module = buildModule(model);
  module.train();
  module.forward({batch(0)});
  return stateOf(module).at("seen");
}

at::Tensor expected(const std::vector<double>& rates) {
  std::vector<at::Tensor> rows;
  for (size_t k = 0; k < rates.size(); ++k) {
    rows.push_back(moved(fused({rates[k]}, static_cast<int64_t>(k)))[0]);
  }
  return at::stack(rows);
}

TEST(Varying, EveryOpOfThePolicyHasAForm) {
  for (const VaryingPolicy& row : kVaryingPolicy) {
    EXPECT_TRUE(canLiftVarying(std::string(row.op))) << row.op;
  }
}

TEST(Varying, MembersMoveByTheirOwnRates) {
  const std::vector<double> rates = {0.9, 0.5, 0.1};
  EXPECT_TRUE(at::allclose(moved(fused(rates)), expected(rates)));
}

TEST(Varying, SelectedMembersKeepTheirNumbers) {
  const FusedModel model = selectMembers(fused({0.9, 0.5, 0.1}), {2, 0});
  EXPECT_TRUE(at::equal(model.varying.at(0).values, at::tensor({0.1, 0.9}, at::kDouble)));
  EXPECT_TRUE(at::allclose(
      moved(model), expected({0.9, 0.5, 0.1}).index_select(0, at::tensor({2, 0}, at::kLong))));
}

TEST(Varying, AppendedMembersKeepTheirNumbers) {
  const at::Tensor wanted = expected({0.9, 0.5, 0.1, 0.3});
  // Numbers that vary in the first, in the second, in both, and only between the two.
  const auto appended = [](const std::vector<double>& a, const std::vector<double>& b) {
    return moved(appendMembers(fused(a), fused(b, static_cast<int64_t>(a.size()))));
  };
  EXPECT_TRUE(at::allclose(appended({0.9, 0.5, 0.1}, {0.3}), wanted));
  EXPECT_TRUE(at::allclose(appended({0.9}, {0.5, 0.1, 0.3}), wanted));
  EXPECT_TRUE(at::allclose(appended({0.9, 0.5}, {0.1, 0.3}), wanted));
  EXPECT_TRUE(at::allclose(appended({0.9, 0.9}, {0.5, 0.5}), expected({0.9, 0.9, 0.5, 0.5})));
}

TEST(Varying, SplitMembersHaveTheirNumbersAsLiterals) {
  const FusedModel model = fused({0.9, 0.5, 0.1});
  for (size_t k = 0; k < 3; ++k) {
    torch::jit::Module member = memberModule(model, k);
    member.train();
    member.forward({batch(0)});
    EXPECT_TRUE(at::allclose(stateOf(member).at("seen"), expected({0.9, 0.5, 0.1})[k]));
  }
}

TEST(Varying, FilesKeepThem) {
  const FusedModel model = fused({0.9, 0.5, 0.1});
  const std::string path = testing::TempDir() + "varying.pt";
  writeFused(model, path);
  const FusedModel again = readFused(path);
  EXPECT_TRUE(at::equal(again.varying.at(0).values, model.varying.at(0).values));
  EXPECT_TRUE(at::allclose(moved(again), moved(model)));
}

}  // namespace
}  // namespace chorus::test
