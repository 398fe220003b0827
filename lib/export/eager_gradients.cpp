#include "lib/export/eager_gradients.h"

#include <torch/csrc/jit/runtime/autodiff.h>

#include <algorithm>
#include <set>

namespace chorus {

namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

bool isComplex(const Value* value) {
  if (value->type()->kind() == c10::TypeKind::ComplexType) return true;
  const auto type = value->type()->cast<c10::TensorType>();
  return type && type->scalarType() && c10::isComplexType(*type->scalarType());
}

bool hasComplex(const Block& block) {
  const auto& inputs = block.inputs();
  if (std::any_of(inputs.begin(), inputs.end(), isComplex)) return true;
  for (const Node* node : block.nodes()) {
    const auto& outputs = node->outputs();
    if (std::any_of(outputs.begin(), outputs.end(), isComplex)) return true;
    for (const Block* inner : node->blocks()) {
      if (hasComplex(*inner)) return true;
    }
  }
  return false;
}

/// Where the formula gives another gradient: at ties, zeros and the ends of ranges, where networks
/// often are, or by constants of single precision (leaky_relu, hardsigmoid).
bool differs(const Node* node) {
  static const std::set<std::string> ops = {
      "aten::hardtanh", "aten::threshold",  "aten::std",        "aten::max",
      "aten::min",      "aten::leaky_relu", "aten::hardsigmoid"};
  const std::string op = node->kind().toQualString();
  return ops.count(op) ||
         (op == "aten::pow" && node->inputs().at(1)->type()->kind() == c10::TypeKind::TensorType);
}

/// y = op(x)   ==>   y = If(is_grad_enabled()): op(x) | op(x)
void hide(Node* node) {
  Graph& graph = *node->owningGraph();
  const torch::jit::WithInsertPoint before(node);
  Value* mode = graph.insert(c10::Symbol::fromQualString("aten::is_grad_enabled"), {});
  Node* branch = graph.insertNode(graph.create(c10::prim::If, {mode}, 0));
  for (int i = 0; i < 2; ++i) {
    Block* block = branch->addBlock();
    Node* copy = block->appendNode(graph.createClone(node, [](Value* v) { return v; }));
    for (Value* output : copy->outputs()) block->registerOutput(output);
  }
  for (Value* output : node->outputs()) {
    output->replaceAllUsesWith(branch->addOutput()->copyMetadata(output));
  }
  node->destroy();
}

void hideIn(Block& block, bool all) {
  for (auto at = block.nodes().begin(); at != block.nodes().end();) {
    Node* node = *at++;
    for (Block* inner : node->blocks()) hideIn(*inner, all);
    if (!node->kind().is_aten() || !torch::jit::isDifferentiable(node)) continue;
    if (all || differs(node)) hide(node);
  }
}

}  // namespace

void keepEagerGradients(Graph& fused, const Graph& member) {
  hideIn(*fused.block(), hasComplex(*member.block()) || hasComplex(*fused.block()));
}

}  // namespace chorus
