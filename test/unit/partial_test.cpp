// Members that differ in places: how their ops are laid side by side, and choices between them.
#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/irparser.h>

#include <random>

#include "lib/partial/sequence.h"
#include "lib/support/choice.h"

namespace chorus {
namespace {

using partial::Item;
using partial::Sequence;

Sequence sequenceOf(const std::vector<uint64_t>& signatures) {
  Sequence sequence;
  for (const uint64_t signature : signatures) {
    Item item;
    item.signature = signature;
    sequence.items.push_back(item);
  }
  return sequence;
}

/// The textbook's table.
size_t lengthOfLongestCommon(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  std::vector<std::vector<size_t>> best(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool equal = a[i - 1] != 0 && a[i - 1] == b[j - 1];
      best[i][j] = std::max({best[i - 1][j], best[i][j - 1], best[i - 1][j - 1] + (equal ? 1 : 0)});
    }
  }
  return best[a.size()][b.size()];
}

TEST(Partial, LongestCommonIsLongestAndCommon) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const auto draw = [&] {
      std::vector<uint64_t> signatures(random() % 12);
      for (uint64_t& signature : signatures) signature = random() % 5;  // 0: like nothing else
      return signatures;
    };
    const std::vector<uint64_t> a = draw(), b = draw();
    const auto pairs = partial::longestCommon(sequenceOf(a), sequenceOf(b));
    EXPECT_EQ(pairs.size(), lengthOfLongestCommon(a, b));
    for (size_t p = 0; p < pairs.size(); ++p) {
      const auto [i, j] = pairs[p];
      ASSERT_LT(i, a.size());
      ASSERT_LT(j, b.size());
      EXPECT_NE(a[i], 0U);
      EXPECT_EQ(a[i], b[j]);
      if (p > 0) EXPECT_TRUE(pairs[p - 1].first < i && pairs[p - 1].second < j);
    }
  }
}

/// y = op_v(x) for variant v, then y * y.
std::shared_ptr<Graph> graphWithChoice(const std::vector<std::string>& ops) {
  auto graph = std::make_shared<Graph>();
  Value* x = graph->addInput("x");
  Node* choice = graph->insertNode(createChoice(*graph, ops.size()));
  Value* y = choice->addOutput();
  for (size_t v = 0; v < ops.size(); ++v) {
    const torch::jit::WithInsertPoint inside(choice->blocks()[v]);
    const bool nothing = ops[v].empty();
    choice->blocks()[v]->registerOutput(
        nothing ? x : graph->insert(c10::Symbol::fromQualString(ops[v]), {x}));
  }
  graph->registerOutput(graph->insert(c10::aten::mul, {y, y}));
  graph->lint();
  return graph;
}

std::vector<std::string> opsOf(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node* node : graph.nodes()) {
    if (node->kind() != c10::prim::Constant) ops.emplace_back(node->kind().toQualString());
  }
  return ops;
}

const std::vector<std::string> kOps = {"aten::relu", "aten::tanh", "", "aten::sin", "aten::cos"};

TEST(Partial, AVariantIsItsOwnBlock) {
  for (size_t v = 0; v < kOps.size(); ++v) {
    std::vector<std::string> expected = {"aten::mul"};
    if (!kOps[v].empty()) expected.insert(expected.begin(), kOps[v]);
    EXPECT_EQ(opsOf(*takeVariant(*graphWithChoice(kOps), v)), expected);
  }
}

TEST(Partial, ChoicesSurviveAFile) {
  for (size_t count = 2; count <= kOps.size(); ++count) {
    const auto graph = graphWithChoice({kOps.begin(), kOps.begin() + static_cast<long>(count)});
    const auto lowered = lowerChoices(*graph);
    EXPECT_FALSE(hasChoices(*lowered));
    EXPECT_EQ(lowered->inputs().size(), 2U);
    const auto raised = raiseChoices(*lowered, count);
    EXPECT_EQ(raised->inputs().size(), 1U);
    EXPECT_TRUE(hasChoices(*raised));
    for (size_t v = 0; v < count; ++v) {
      EXPECT_EQ(opsOf(*takeVariant(*raised, v)), opsOf(*takeVariant(*graph, v)));
    }
  }
}

TEST(Partial, TheNumberOfTheVariantDecidesBranchesOnly) {
  const auto lowered = lowerChoices(*graphWithChoice({"aten::relu", "aten::tanh"}));
  {
    Value* variant = lowered->inputs().back();
    Value* out = lowered->insert(c10::aten::add, {lowered->outputs()[0], variant});
    lowered->eraseOutput(0);
    lowered->registerOutput(out);
  }
  EXPECT_THROW(raiseChoices(*lowered, 2), Refused);
}

}  // namespace
}  // namespace chorus
