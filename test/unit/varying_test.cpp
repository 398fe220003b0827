#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/operator.h>

#include "chorus/batching_rule.h"
#include "chorus/varying_policy.h"
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

bool listsWord(std::string_view words, const std::string& word) {
  return (" " + std::string(words) + " ").find(" " + word + " ") != std::string::npos;
}

/// Numbers of type float or Scalar that may come as constants beside tensors.
std::set<std::string> numbersOf(const c10::FunctionSchema& schema) {
  std::set<std::string> names;
  const auto is_tensor = [](const c10::Argument& argument) {
    return argument.type()->isSubtypeOf(*c10::TensorType::get());
  };
  const bool tensors = !schema.returns().empty() &&
                       std::ranges::all_of(schema.returns(), is_tensor) &&
                       std::ranges::any_of(schema.arguments(), is_tensor);
  const bool in_place = schema.overload_name().find("out") != std::string::npos;
  if (!tensors || in_place) return names;
  for (const c10::Argument& argument : schema.arguments()) {
    c10::TypePtr type = argument.type();
    if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    const bool number =
        type->kind() == c10::TypeKind::FloatType || type->kind() == c10::TypeKind::NumberType;
    if (number) names.insert(argument.name());
  }
  return names;
}

/// Importing gives these the names that are listed.
constexpr std::string_view kOtherNames =
    "clip subtract multiply divide true_divide special_xlogy not_equal less less_equal greater "
    "greater_equal special_logit";

/// Every number of every op that has a rule varies, or it is written why not.
TEST(Varying, EveryNumberVariesOrHasAReason) {
  size_t seen = 0;
  for (const RuleRow& row : allRules()) {
    if (row.op.rfind("aten::", 0) != 0 || row.op.rfind("aten::_foreach", 0) == 0) continue;
    const std::string name = row.op.substr(6);
    if (listsWord(kOtherNames, name)) continue;
    std::string_view varying, reason;
    for (const VaryingPolicy& policy : kVaryingPolicy) {
      if (policy.op == row.op) varying = policy.arguments;
    }
    for (const InvariantNumbers& invariant : kInvariantNumbers) {
      if (listsWord(invariant.ops, name)) reason = invariant.reason;
    }
    for (const auto& op : torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(row.op))) {
      for (const std::string& number : numbersOf(op->schema())) {
        ++seen;
        EXPECT_TRUE(listsWord(varying, number) || !reason.empty())
            << op->schema() << ": '" << number << "'";
      }
    }
  }
  EXPECT_GT(seen, 150u);
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
