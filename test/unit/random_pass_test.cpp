#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include "chorus/diagnostics.h"
#include "chorus/pass.h"
#include "chorus/random.h"

namespace chorus {
namespace {

std::shared_ptr<torch::jit::Graph> rewritten(const std::string& text) {
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR(text, graph.get());
  runPasses(graph, {"counter-random"});
  return graph;
}

at::Tensor runWith(const std::shared_ptr<torch::jit::Graph>& graph, const at::Tensor& x,
                   int64_t step) {
  registerRandomOps();
  const RandomContext context{1, {2}, {step}};
  const RandomScope scope(context);
  torch::jit::Stack stack = {x};
  torch::jit::InterpreterState(torch::jit::Code(graph, "test")).run(stack);
  return stack.back().toTensor();
}

std::string oneDropout(const std::string& op, double p) {
  return "graph(%x : Float(*, 6, 5, 5)):\n  %p : float = prim::Constant[value=" +
         std::to_string(p) +
         "]()\n  %t : bool = prim::Constant[value=1]()\n  %y : Float(*, 6, 5, 5) = aten::" + op +
         "(%x, %p, %t)\n  return (%y)\n";
}

TEST(CounterRandom, DropoutIsAFunctionOfTheStep) {
  const auto graph = rewritten(oneDropout("dropout", 0.5));
  const at::Tensor x = at::ones({6, 6, 5, 5});
  EXPECT_TRUE(at::equal(runWith(graph, x, 3), runWith(graph, x, 3)));
  EXPECT_FALSE(at::equal(runWith(graph, x, 3), runWith(graph, x, 4)));
  EXPECT_EQ(rewritten(oneDropout("dropout", 0.0))->outputs()[0]->node()->kind(), c10::prim::Param);
}

TEST(CounterRandom, FeatureDropoutDropsWholeChannels) {
  const at::Tensor y =
      runWith(rewritten(oneDropout("feature_dropout", 0.5)), at::ones({6, 6, 5, 5}), 0);
  EXPECT_TRUE(at::equal(y, y.slice(2, 0, 1).slice(3, 0, 1).expand_as(y)));
  EXPECT_GT((y == 0).sum().item<int64_t>(), 0);
  EXPECT_GT((y == 2).sum().item<int64_t>(), 0);
}

TEST(CounterRandom, AlphaDropoutKeepsMeanAndVariance) {
  const at::Tensor x = at::randn({400, 6, 5, 5});
  const at::Tensor y = runWith(rewritten(oneDropout("alpha_dropout", 0.3)), x, 0);
  EXPECT_NEAR(y.mean().item<double>(), x.mean().item<double>(), 0.02);
  EXPECT_NEAR(y.var().item<double>(), x.var().item<double>(), 0.03);
  EXPECT_TRUE(
      at::equal(runWith(rewritten(oneDropout("alpha_dropout", 1.0)), x, 0), at::zeros_like(x)));
}

TEST(CounterRandom, NodesAreCountedInGraphOrder) {
  const auto graph = rewritten(R"(graph(%x : Float(*, 6)):
  %p : float = prim::Constant[value=0.5]()
  %z : float = prim::Constant[value=0.]()
  %t : bool = prim::Constant[value=1]()
  %a : Float(*, 6) = aten::dropout(%x, %p, %t)
  %b : Float(*, 6) = aten::dropout(%a, %z, %t)
  %c : Float(*, 6) = aten::dropout(%b, %p, %t)
  return (%c)
)");
  std::vector<int64_t> nodes;
  for (const torch::jit::Node* node : graph->nodes()) {
    if (node->kind() == c10::Symbol::fromQualString("chorus::keep_mask")) {
      nodes.push_back(torch::jit::toIValue(node->input(2))->toInt());
    }
  }
  EXPECT_EQ(nodes, (std::vector<int64_t>{0, 1}));  // not the one with p = 0
}

/// A [*,6] float `x` through one op.
at::Tensor drawn(const std::string& call, const at::Tensor& x, int64_t step = 0) {
  return runWith(rewritten("graph(%x : Float(*, 6)):\n  %n : NoneType = prim::Constant()\n"
                           "  %t : bool = prim::Constant[value=1]()\n"
                           "  %a : float = prim::Constant[value=0.25]()\n"
                           "  %b : float = prim::Constant[value=2.]()\n"
                           "  %c : int = prim::Constant[value=1000]()\n"
                           "  %y : Float(*, 6) = " +
                           call + "\n  return (%y)\n"),
                 x, step);
}

TEST(CounterRandom, DistributionsHaveTheirMoments) {
  const at::Tensor x = at::full({50000, 6}, 0.25);
  const auto expect = [&](const std::string& call, double mean, double deviation) {
    const at::Tensor y = drawn(call, x).to(at::kDouble);
    EXPECT_NEAR(y.mean().item<double>(), mean, 0.01 * deviation) << call;
    EXPECT_NEAR(y.std().item<double>(), deviation, 0.01 * deviation) << call;
    EXPECT_TRUE(at::equal(drawn(call, x), drawn(call, x))) << call;
    EXPECT_FALSE(at::equal(drawn(call, x), drawn(call, x, 1))) << call;
  };
  expect("aten::bernoulli(%x, %n)", 0.25, std::sqrt(0.25 * 0.75));
  expect("aten::bernoulli(%x, %a, %n)", 0.25, std::sqrt(0.25 * 0.75));
  expect("aten::rand_like(%x, %n, %n, %n, %n, %n)", 0.5, std::sqrt(1.0 / 12));
  expect("aten::randn_like(%x, %n, %n, %n, %n, %n)", 0, 1);
  expect("aten::uniform(%x, %a, %b, %n)", 1.125, 1.75 / std::sqrt(12.0));
  expect("aten::normal_functional(%x, %a, %b, %n)", 0.25, 2);
  expect("aten::exponential(%x, %b, %n)", 0.5, 0.5);
  expect("aten::randint_like(%x, %c, %n, %n, %n, %n, %n)", 499.5, 1000 / std::sqrt(12.0));
}

TEST(CounterRandom, RreluScalesNegativeElementsOnly) {
  const at::Tensor x = at::randn({1000, 6});
  const at::Tensor y = drawn("aten::rrelu(%x, %a, %b, %t, %n)", x), slope = y / x;
  EXPECT_TRUE(at::equal(y.masked_select(x >= 0), x.masked_select(x >= 0)));
  const at::Tensor drawn_slopes = slope.masked_select(x < 0);
  EXPECT_GE(drawn_slopes.min().item<double>(), 0.2499);
  EXPECT_LT(drawn_slopes.max().item<double>(), 2.0001);
  EXPECT_NEAR(drawn_slopes.mean().item<double>(), 1.125, 0.05);
}

TEST(CounterRandom, UniformNumbersStayBelowOne) {
  registerRandomOps();
  const RandomContext context{1, {2}, {0}};
  const RandomScope scope(context);
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    const at::Tensor u = uniformNumbers(at::zeros({100000}, dtype), 0, false);
    EXPECT_EQ(u.scalar_type(), dtype);
    EXPECT_LT(u.to(at::kDouble).max().item<double>(), 1);
    EXPECT_GE(u.min().item<double>(), 0);
  }
}

TEST(CounterRandom, RefusesOtherRandomOps) {
  try {
    rewritten(
        "graph(%x : Float(*, 6)):\n  %g : NoneType = prim::Constant()\n"
        "  %y : Float(*, 6) = aten::binomial(%x, %x, %g)\n  return (%y)\n");
    FAIL() << "accepted";
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.exitCode(), 3);
    EXPECT_NE(std::string(refused.what()).find("'binomial' draws random numbers"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace chorus
