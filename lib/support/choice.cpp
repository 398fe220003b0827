#include "lib/support/choice.h"

#include <torch/csrc/jit/ir/constants.h>

#include <functional>
#include <unordered_map>

#include "chorus/diagnostics.h"

namespace chorus {
namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;
using torch::jit::WithInsertPoint;

using Values = std::unordered_map<const Value*, Value*>;

/// Copies one graph into another, with another idea of some nodes.
struct Copier {
  Graph& to;
  Values values;
  /// True where it has emitted the node itself.
  std::function<bool(Copier&, const Node*)> special;
  NodeCopies* copies = nullptr;

  void block(const Block& from) {
    for (const Node* node : from.nodes()) {
      if (special(*this, node)) continue;
      Node* copy = to.insertNode(to.createClone(const_cast<Node*>(node),  // only reads it
                                                [&](Value* value) { return values.at(value); }));
      for (size_t i = 0; i < node->outputs().size(); ++i) values[node->output(i)] = copy->output(i);
      if (copies) copies->emplace(node, copy);
    }
  }
};

void copyGraph(const Graph& from, Copier& copier) {
  for (const Value* input : from.inputs()) {
    Value* copy = copier.to.addInput();
    copy->copyMetadata(const_cast<Value*>(input));  // only reads it
    copier.values[input] = copy;
  }
}

void copyOutputs(const Graph& from, Copier& copier) {
  for (const Value* output : from.outputs()) copier.to.registerOutput(copier.values.at(output));
  copier.to.lint();
}

/// prim::If over "variant < middle", down to one variant.
std::vector<Value*> branches(Copier& copier, const Node* choice, Value* variant, size_t begin,
                             size_t end) {
  Graph& to = copier.to;
  if (end - begin == 1) {
    const Block& block = *choice->blocks()[begin];
    copier.block(block);
    std::vector<Value*> results;
    for (const Value* output : block.outputs()) results.push_back(copier.values.at(output));
    return results;
  }
  const size_t middle = (begin + end) / 2;
  Value* below = to.insert(c10::aten::lt, {variant, static_cast<int64_t>(middle)});
  Node* made = to.insertNode(to.create(c10::prim::If, {to.insert(c10::aten::Bool, {below})}, 0));
  for (const bool low : {true, false}) {
    Block* block = made->addBlock();
    const WithInsertPoint inside(block);
    for (Value* result :
         branches(copier, choice, variant, low ? begin : middle, low ? middle : end)) {
      block->registerOutput(result);
    }
  }
  for (const Value* output : choice->outputs()) made->addOutput()->setType(output->type());
  return made->outputs().vec();
}

/// What the last input decides: its comparisons, as tensors and as bools.
class Conditions {
 public:
  explicit Conditions(const Value* variant) : variant_(variant) {}

  /// "variant < N" as a bool.
  std::optional<int64_t> bound(const Value* value) const {
    if (value->node()->kind() != c10::aten::Bool) return std::nullopt;
    return compared(value->node()->input(0));
  }
  bool isPart(const Node* node) const {
    return node->outputs().size() == 1 && (compared(node->output()) || bound(node->output()));
  }
  bool reads(const Node* node) const { return std::ranges::count(node->inputs(), variant_) > 0; }

 private:
  std::optional<int64_t> compared(const Value* value) const {
    const Node* node = value->node();
    if (node->kind() != c10::aten::lt || node->input(0) != variant_) return std::nullopt;
    const auto number = torch::jit::toIValue(node->input(1));
    return number && number->isInt() ? std::optional(number->toInt()) : std::nullopt;
  }
  const Value* variant_;
};

/// The branch that variant `v` takes, and so on within it.
std::vector<Value*> taken(Copier& copier, const Node* branch, const Conditions& conditions,
                          int64_t v) {
  const int64_t bound = *conditions.bound(branch->input());
  const Block& block = *branch->blocks()[v < bound ? 0 : 1];
  copier.block(block);
  std::vector<Value*> results;
  for (const Value* output : block.outputs()) results.push_back(copier.values.at(output));
  return results;
}

bool isBranchOf(const Conditions& conditions, const Node* node) {
  return node->kind() == c10::prim::If && conditions.bound(node->input());
}

}  // namespace

bool isChoice(const Node* node) {
  static const c10::Symbol kind = c10::Symbol::fromQualString(kChoiceOp);
  return node->kind() == kind;
}

bool hasChoices(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node* node) { return isChoice(node); });
}

Node* createChoice(Graph& graph, size_t variants) {
  Node* choice = graph.create(c10::Symbol::fromQualString(kChoiceOp), 0);
  for (size_t v = 0; v < variants; ++v) choice->addBlock();
  return choice;
}

std::shared_ptr<Graph> takeVariant(const Graph& graph, size_t v, NodeCopies* copies) {
  auto made = std::make_shared<Graph>();
  Copier copier{*made, {}, [v](Copier& c, const Node* node) {
                  if (!isChoice(node)) return false;
                  const Block& block = *node->blocks().at(v);
                  c.block(block);
                  for (size_t i = 0; i < node->outputs().size(); ++i) {
                    c.values[node->output(i)] = c.values.at(block.outputs()[i]);
                  }
                  return true;
                }};
  copier.copies = copies;
  copyGraph(graph, copier);
  copier.block(*graph.block());
  copyOutputs(graph, copier);
  return made;
}

std::shared_ptr<Graph> lowerChoices(const Graph& graph) {
  auto made = std::make_shared<Graph>();
  Value* variant = nullptr;
  Copier copier{*made, {}, [&](Copier& c, const Node* node) {
                  if (!isChoice(node)) return false;
                  const auto results = branches(c, node, variant, 0, node->blocks().size());
                  for (size_t i = 0; i < results.size(); ++i)
                    c.values[node->output(i)] = results[i];
                  return true;
                }};
  copyGraph(graph, copier);
  variant = made->addInput("variant");
  variant->setType(c10::TensorType::create(
      at::kLong, at::kCPU, c10::SymbolicShape(std::vector<std::optional<int64_t>>{}), {}, false));
  copier.block(*graph.block());
  copyOutputs(graph, copier);
  return made;
}

std::shared_ptr<Graph> raiseChoices(const Graph& graph, size_t variants) {
  auto made = std::make_shared<Graph>();
  const Value* variant = graph.inputs().back();
  const Conditions conditions(variant);
  const auto outer = [&](Copier& c, const Node* node) {
    if (conditions.isPart(node)) return true;
    if (!isBranchOf(conditions, node)) {
      if (conditions.reads(node))
        throw Refused(error("the number of the variant is read by an op"));
      return false;
    }
    Node* choice = c.to.insertNode(createChoice(c.to, variants));
    for (const Value* output : node->outputs()) choice->addOutput()->setType(output->type());
    for (size_t v = 0; v < variants; ++v) {
      Copier inner{c.to, c.values, {}};
      inner.special = [&conditions, v](Copier& deeper, const Node* part) {
        if (conditions.isPart(part)) return true;
        if (!isBranchOf(conditions, part)) return false;
        const auto results = taken(deeper, part, conditions, static_cast<int64_t>(v));
        for (size_t i = 0; i < results.size(); ++i) deeper.values[part->output(i)] = results[i];
        return true;
      };
      const WithInsertPoint inside(choice->blocks()[v]);
      for (Value* result : taken(inner, node, conditions, static_cast<int64_t>(v))) {
        choice->blocks()[v]->registerOutput(result);
      }
    }
    for (size_t i = 0; i < node->outputs().size(); ++i)
      c.values[node->output(i)] = choice->output(i);
    return true;
  };
  Copier copier{*made, {}, outer};
  copyGraph(graph, copier);
  copier.block(*graph.block());
  made->eraseInput(made->inputs().size() - 1);
  copyOutputs(graph, copier);
  return made;
}

}  // namespace chorus
