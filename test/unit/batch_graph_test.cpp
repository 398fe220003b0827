// lib/batching: the walk itself. What the rules compute is the oracle's business
// (test/conformance).
#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>

#include "chorus/batch_graph.h"

namespace chorus {
namespace {

std::shared_ptr<Graph> parsed(const std::string& text) {
  auto graph = std::make_shared<Graph>();
  torch::jit::parseIR(text, graph.get());
  return graph;
}

size_t count(const Graph& graph, const std::string& op) {
  const auto all = [&](const auto& self, at::ArrayRef<const torch::jit::Block*> blocks) -> size_t {
    size_t found = 0;
    for (const auto* block : blocks) {
      for (const Node* node : block->nodes()) {
        found += node->kind().toQualString() == op;
        found += self(self, node->blocks());
      }
    }
    return found;
  };
  return all(all, {graph.block()});
}

std::string refusal(const Graph& graph, const std::vector<bool>& stacked) {
  try {
    batchGraph(graph, stacked, false);
  } catch (const Refused& refused) {
    return refused.what();
  }
  return "nothing was refused";
}

constexpr const char* kTwoBranches = R"(
graph(%x : Float(4, 4), %w : Float(4)):
  %a : Float(4, 4) = aten::relu(%x)
  %b : Float(4, 4) = aten::mul(%a, %w)
  %n : int = prim::Constant[value=4]()
  %c : Float(4) = aten::histc(%b, %n, %n, %n)
  return (%a, %c))";

TEST(BatchGraph, WhatReadsNoStackedOperandStaysAsItIs) {
  const auto batched = batchGraph(*parsed(kTwoBranches), {false, true}, false);
  EXPECT_EQ(batched.stacked_outputs, (std::vector<bool>{false, true}));
  ASSERT_EQ(batched.decisions.size(), 3);
  EXPECT_EQ(batched.decisions[0].kind, Decision::Kind::Shared);
  EXPECT_EQ(batched.decisions[1].kind, Decision::Kind::Fused);
  EXPECT_EQ(batched.decisions[1].family, "broadcasting");
  EXPECT_EQ(batched.decisions[2].kind, Decision::Kind::PerMember);
  EXPECT_EQ(batched.decisions[2].reason, "no batching rule");
}

TEST(BatchGraph, OutputsAreStackedOnRequest) {
  const auto batched = batchGraph(*parsed(kTwoBranches), {false, true}, true);
  EXPECT_EQ(batched.stacked_outputs, (std::vector<bool>{true, true}));
  EXPECT_EQ(count(*batched.graph, "aten::expand"), 1);
}

TEST(BatchGraph, ADisabledRuleRunsPerMember) {
  for (const char* name : {"aten::mul", "mul", "broadcasting"}) {
    const auto batched = batchGraph(*parsed(kTwoBranches), {false, true}, false, {name});
    EXPECT_EQ(batched.decisions[1].kind, Decision::Kind::PerMember) << name;
    EXPECT_EQ(batched.decisions[1].reason, "disabled");
  }
}

// One loop, however many members there are, and K is read from a tensor.
TEST(BatchGraph, KIsData) {
  const auto batched = batchGraph(*parsed(kTwoBranches), {false, true}, false);
  EXPECT_EQ(count(*batched.graph, "prim::Loop"), 1);
  EXPECT_EQ(count(*batched.graph, "aten::histc"), 1);
  EXPECT_EQ(count(*batched.graph, "aten::size"), 1);
}

// Each member has its own draw, also of a shared operand; in eval mode nothing is drawn.
TEST(BatchGraph, RandomOpsOfSharedOperands) {
  const std::string text = R"(
graph(%x : Float(4, 4), %w : Float(4)):
  %p : float = prim::Constant[value=0.5]()
  %train : bool = prim::Constant[value=TRAIN]()
  %y : Float(4, 4) = aten::dropout(%x, %p, %train)
  return (%y))";
  const auto with = [&](const std::string& value) {
    std::string changed = text;
    changed.replace(changed.find("TRAIN"), 5, value);
    return batchGraph(*parsed(changed), {false, true}, false).stacked_outputs;
  };
  EXPECT_EQ(with("1"), std::vector<bool>{true});
  EXPECT_EQ(with("0"), std::vector<bool>{false});
}

TEST(BatchGraph, EmittedNodesCarryTheUsersPlace) {
  const auto graph = parsed(kTwoBranches);
  const auto range = torch::jit::SourceRange(
      std::make_shared<torch::jit::Source>("x = f(x)\n", "net.py", 41), 0, 8);
  for (Node* node : graph->nodes()) node->setSourceRange(range);
  const auto batched = batchGraph(*graph, {false, true}, false);
  for (const Node* node : batched.graph->nodes()) {
    const bool ours = node->kind() == c10::aten::size || node->kind() == c10::prim::Constant;
    if (ours) continue;
    EXPECT_EQ(node->sourceRange().source()->filename().value_or(""), "net.py") << *node;
  }
}

TEST(BatchGraph, ANumberOfAMembersOwnIsRefused) {
  const auto graph = parsed(R"(
graph(%x : Float()):
  %n : int = aten::Int(%x)
  return (%n))");
  EXPECT_EQ(
      refusal(*graph, {true}),
      "unsupported: aten::Int gives the int result that depends on a member's own values; members "
      "cannot differ in it\n");
}

TEST(BatchGraph, AnUnknownRankIsABug) {
  const auto graph = parsed(R"(
graph(%x : Tensor):
  %y : Tensor = aten::relu(%x)
  return (%y))");
  EXPECT_EQ(refusal(*graph, {true}), "internal error: aten::relu: the rank of %x is not known\n");
}

}  // namespace
}  // namespace chorus
