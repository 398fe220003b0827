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
  EXPECT_EQ(nodes, (std::vector<int64_t>{0, 2}));
}

TEST(CounterRandom, RefusesOtherRandomOps) {
  try {
    rewritten(
        "graph(%x : Float(*, 6)):\n  %g : NoneType = prim::Constant()\n"
        "  %y : Float(*, 6) = aten::bernoulli(%x, %g)\n  return (%y)\n");
    FAIL() << "accepted";
  } catch (const Refused& refused) {
    EXPECT_EQ(refused.exitCode(), 3);
    EXPECT_NE(std::string(refused.what()).find("'bernoulli' draws random numbers"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace chorus
