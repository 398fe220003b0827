// Rules of family "random": the oracle cannot compare draws, so their masks are judged here.
#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include "chorus/batch_graph.h"
#include "chorus/random.h"
#include "lib/support/marker_ops.h"

namespace chorus {
namespace {

constexpr int64_t kMembers = 3, kRows = 40, kChannels = 50, kWidth = 4;

/// `statements` make %y of %x [40,50,4]; `stacked`: whether x has K in front.
at::Tensor runRule(const std::string& statements, bool stacked, const at::Tensor& x) {
  registerMarkerOps();
  registerRandomOps();
  auto graph = std::make_shared<Graph>();
  // %w is there to be stacked: it says what K is.
  torch::jit::parseIR(
      "graph(%x : Float(40, 50, 4), %w : Float(2)):\n" + statements + "  return (%y)\n",
      graph.get());
  const BatchedGraph batched = batchGraph(*graph, {stacked, true}, true);
  torch::jit::Stack stack = {x, at::ones({kMembers, 2})};
  const torch::jit::Code code(batched.graph, "random_rules_test");
  torch::jit::InterpreterState(code).run(stack);
  return stack.at(0).toTensor();
}

std::string dropoutText(const std::string& op, const std::string& p, bool train) {
  return "  %p : float = prim::Constant[value=" + p + "]()\n" +
         "  %train : bool = prim::Constant[value=" + (train ? "1" : "0") + "]()\n" +
         "  %y : Float(40, 50, 4) = aten::" + op + "(%x, %p, %train)\n";
}

at::Tensor operand(bool stacked) {
  return stacked ? at::ones({kMembers, kRows, kChannels, kWidth})
                 : at::ones({kRows, kChannels, kWidth});
}

class Dropouts : public testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  std::string op() const { return std::get<0>(GetParam()); }
  bool stacked() const { return std::get<1>(GetParam()); }
  bool perChannel() const { return op().find("feature") != std::string::npos; }
  bool alpha() const { return op().find("alpha") != std::string::npos; }
};

TEST_P(Dropouts, DrawsApartForEachMemberWithTheRightFrequency) {
  at::manual_seed(1);
  const at::Tensor y = runRule(dropoutText(op(), "0.25", true), stacked(), operand(stacked()));
  ASSERT_EQ(y.sizes(), (std::vector<int64_t>{kMembers, kRows, kChannels, kWidth}));
  // Kept ones have one value, dropped ones another and lower.
  const at::Tensor kept = y.eq(y.max());
  for (int64_t k = 0; k < kMembers; ++k) {
    const double share = kept[k].to(at::kDouble).mean().item<double>();
    const double draws = static_cast<double>(kRows * kChannels * (perChannel() ? 1 : kWidth));
    EXPECT_NEAR(share, 0.75, 5 * std::sqrt(0.25 * 0.75 / draws)) << "member " << k;
    for (int64_t other = 0; other < k; ++other) {
      // Independent masks agree in p^2 + (1-p)^2 = 0.625 of the places.
      const double agree = kept[k].eq(kept[other]).to(at::kDouble).mean().item<double>();
      EXPECT_NEAR(agree, 0.625, 5 * std::sqrt(0.625 * 0.375 / draws)) << k << " and " << other;
    }
  }
}

TEST_P(Dropouts, FeatureFormsDropWholeChannels) {
  at::manual_seed(2);
  const at::Tensor y = runRule(dropoutText(op(), "0.5", true), stacked(), operand(stacked()));
  const bool whole = y.amax({3}).eq(y.amin({3})).all().item<bool>();
  EXPECT_EQ(whole, perChannel());
  // Rows and channels differ: the mask is not one of N or of C alone.
  const at::Tensor channel = y.select(3, 0);
  EXPECT_FALSE(channel.eq(channel.narrow(1, 0, 1)).all().item<bool>());
  EXPECT_FALSE(channel.eq(channel.narrow(2, 0, 1)).all().item<bool>());
}

TEST_P(Dropouts, ProbabilityZeroIsTheIdentity) {
  const at::Tensor x = operand(stacked());
  const at::Tensor y = runRule(dropoutText(op(), "0.", true), stacked(), x);
  EXPECT_TRUE(at::equal(y, x.expand({kMembers, kRows, kChannels, kWidth})));
}

TEST_P(Dropouts, ProbabilityOneDropsAll) {
  const at::Tensor y = runRule(dropoutText(op(), "1.", true), stacked(), operand(stacked()));
  EXPECT_TRUE(at::equal(y, at::zeros_like(y)));
}

TEST_P(Dropouts, IsTheIdentityOutsideTraining) {
  const at::Tensor x = operand(stacked());
  const at::Tensor y = runRule(dropoutText(op(), "0.5", false), stacked(), x);
  EXPECT_TRUE(at::equal(y, x.expand({kMembers, kRows, kChannels, kWidth})));
}

std::string caseName(const testing::TestParamInfo<std::tuple<std::string, bool>>& info) {
  return std::get<0>(info.param) + (std::get<1>(info.param) ? "_stacked" : "_shared");
}

INSTANTIATE_TEST_SUITE_P(RandomRules, Dropouts,
                         testing::Combine(testing::Values("dropout", "feature_dropout",
                                                          "alpha_dropout", "feature_alpha_dropout"),
                                          testing::Bool()),
                         caseName);

/// Members' draws differ; none repeats another one's.
void expectApart(const at::Tensor& y) {
  ASSERT_EQ(y.size(0), kMembers);
  for (int64_t k = 1; k < kMembers; ++k) {
    for (int64_t other = 0; other < k; ++other) {
      EXPECT_FALSE(at::equal(y[k], y[other])) << k << " and " << other;
    }
  }
}

TEST(RandomRules, NativeDropoutDrawsApart) {
  at::manual_seed(3);
  const std::string text =
      "  %p : float = prim::Constant[value=0.5]()\n"
      "  %train : bool = prim::Constant[value=1]()\n"
      "  %y : Float(40, 50, 4), %mask : Bool(40, 50, 4) = aten::native_dropout(%x, %p, %train)\n";
  for (bool stacked : {false, true}) expectApart(runRule(text, stacked, operand(stacked)));
}

TEST(RandomRules, LikeOpsDrawApart) {
  at::manual_seed(4);
  const std::string none = "  %n : NoneType = prim::Constant()\n";
  const std::vector<std::string> texts = {
      none + "  %y : Float(40, 50, 4) = aten::rand_like(%x, %n, %n, %n, %n, %n)\n",
      none + "  %y : Float(40, 50, 4) = aten::randn_like(%x, %n, %n, %n, %n, %n)\n",
      none +
          "  %high : int = prim::Constant[value=9]()\n"
          "  %y : Float(40, 50, 4) = aten::randint_like(%x, %high, %n, %n, %n, %n, %n)\n",
      none + "  %y : Float(40, 50, 4) = aten::poisson(%x, %n)\n",
      none +
          "  %h : float = prim::Constant[value=0.5]()\n"
          "  %half : Float(40, 50, 4) = aten::mul(%x, %h)\n"
          "  %y : Float(40, 50, 4) = aten::bernoulli(%half, %n)\n",
  };
  for (const std::string& text : texts) {
    for (bool stacked : {false, true}) expectApart(runRule(text, stacked, operand(stacked)));
  }
}

TEST(RandomRules, DrawsOfASizeAreOnePerMember) {
  at::manual_seed(5);
  const std::string text =
      "  %n : NoneType = prim::Constant()\n"
      "  %size : int[] = prim::Constant[value=[3, 3]]()\n"
      "  %y : Float(3, 3) = aten::randn(%size, %n, %n, %n, %n)\n";
  const at::Tensor y = runRule(text, false, operand(false));
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{kMembers, 3, 3}));
  expectApart(y);
}

TEST(RandomRules, MultinomialDrawsRowsApart) {
  at::manual_seed(6);
  const std::string text =
      "  %n : NoneType = prim::Constant()\n"
      "  %zero : int = prim::Constant[value=0]()\n"
      "  %twenty : int = prim::Constant[value=20]()\n"
      "  %no : bool = prim::Constant[value=0]()\n"
      "  %rows : Float(40, 50) = aten::select(%x, %two, %zero)\n"
      "  %y : Long(40, 20) = aten::multinomial(%rows, %twenty, %no, %n)\n";
  const std::string two = "  %two : int = prim::Constant[value=2]()\n";
  for (bool stacked : {false, true}) {
    const at::Tensor y = runRule(two + text, stacked, operand(stacked));
    EXPECT_EQ(y.sizes(), (std::vector<int64_t>{kMembers, kRows, 20}));
    expectApart(y);
  }
}

TEST(RandomRules, KeepMaskIsAskedForAllMembers) {
  registerRandomOps();
  auto graph = std::make_shared<Graph>();
  torch::jit::parseIR(
      "graph(%x : Float(4, 4), %w : Float(4)):\n"
      "  %p : float = prim::Constant[value=0.5]()\n"
      "  %node : int = prim::Constant[value=7]()\n"
      "  %no : bool = prim::Constant[value=0]()\n"
      "  %y : Float(4, 4) = chorus::keep_mask(%x, %p, %node, %no)\n"
      "  return (%y)\n",
      graph.get());
  for (bool stacked : {false, true}) {
    const BatchedGraph batched = batchGraph(*graph, {stacked, true}, false);
    EXPECT_TRUE(batched.stacked_outputs.at(0));
    const Node* mask = batched.graph->outputs()[0]->node();
    EXPECT_STREQ(mask->kind().toQualString(), "chorus::keep_mask");
    EXPECT_EQ(torch::jit::toIValue(mask->input(3))->toBool(), true);
    EXPECT_EQ(torch::jit::toIValue(mask->input(2))->toInt(), 7);
  }
}

}  // namespace
}  // namespace chorus
