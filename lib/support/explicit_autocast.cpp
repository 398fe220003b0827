#include "lib/support/explicit_autocast.h"

#include <torch/csrc/jit/passes/autocast.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include "chorus/diagnostics.h"
#include "chorus/member.h"

namespace chorus {
namespace {

bool isAutocastObject(const Value* value) {
  const auto type = value->type()->cast<c10::ClassType>();
  if (!type || !type->name()) return false;
  const std::string prefix = type->name()->prefix();
  return type->name()->name() == "autocast" &&
         prefix.find("torch.amp.autocast_mode") != std::string::npos;
}

/// In the order of the code, blocks within.
void collect(torch::jit::Block* block, std::vector<Node*>& found) {
  for (Node* node : block->nodes()) {
    const bool enters = node->kind() == c10::prim::Enter || node->kind() == c10::prim::Exit;
    const bool writes = node->kind() == c10::prim::SetAttr;
    const bool makes = node->kind() == c10::prim::CreateObject;
    if ((enters || writes) && isAutocastObject(node->input(0))) found.push_back(node);
    if (makes && isAutocastObject(node->output())) found.push_back(node);
    for (torch::jit::Block* inner : node->blocks()) collect(inner, found);
  }
}

/// LibTorch casts tensors only; a bias whose type is Optional[Tensor] is to be cast as well:
///     If(bias is not None) { to_reduced_precision(bias) } else { bias }
void castOptional(Node* node, size_t i, Node* like) {
  Graph& graph = *node->owningGraph();
  const torch::jit::WithInsertPoint here(node);
  Value* own = node->input(i);
  Value* there = graph.insert(c10::aten::__isnot__, {own, graph.insertConstant(c10::IValue())});
  Node* branch = graph.insertNode(graph.create(c10::prim::If, {there}));
  torch::jit::Block* some = branch->addBlock();
  {
    const torch::jit::WithInsertPoint inside(some);
    Node* tensor = graph.insertNode(graph.create(c10::prim::unchecked_cast, {own}));
    tensor->output()->setType(c10::TensorType::get());
    std::vector<Value*> inputs = like->inputs().vec();
    inputs[0] = tensor->output();
    some->registerOutput(graph.insertNode(graph.create(like->kind(), inputs))->output());
  }
  branch->addBlock()->registerOutput(own);
  branch->output()->setType(own->type());
  node->replaceInput(i, branch->output());
}

void castOptionals(torch::jit::Block* block) {
  static const auto reduced = c10::Symbol::fromQualString("aten::_autocast_to_reduced_precision");
  static const auto optional = c10::OptionalType::create(c10::TensorType::get());
  for (Node* node : block->nodes()) {
    for (torch::jit::Block* inner : node->blocks()) castOptionals(inner);
    if (!node->kind().is_aten()) continue;
    Node* cast = nullptr;
    for (Value* input : node->inputs()) {
      if (input->node()->kind() == reduced) cast = input->node();
    }
    for (size_t i = 0; cast && i < node->inputs().size(); ++i) {
      if (*node->input(i)->type() == *optional) castOptional(node, i, cast);
    }
  }
}

Message unclear(const Node* node) {
  Message message =
      unsupported("what 'torch.autocast' is given in scripted code, where it is not a constant");
  message.place = placeOf(node);
  return message;
}

}  // namespace

bool makeAutocastExplicit(std::shared_ptr<Graph>& graph) {
  std::vector<Node*> objects;
  collect(graph->block(), objects);
  if (objects.empty()) return false;
  const Node* first = objects.front();
  // The dtype passes through a branch: None is the device's own.
  torch::jit::ConstantPropagationImmutableTypes(graph);
  try {
    torch::jit::Autocast(graph);
  } catch (const c10::Error&) {
    throw Refused(unclear(first));
  }
  castOptionals(graph->block());
  objects.clear();
  collect(graph->block(), objects);
  // Last first: a region is entered before it is left, and an object is made before both.
  for (auto it = objects.rbegin(); it != objects.rend(); ++it) {
    Node* node = *it;
    if (node->kind() == c10::prim::Enter) node->output()->replaceAllUsesWith(node->input(0));
    if (node->hasUses()) throw Refused(unclear(node));
    node->destroy();
  }
  torch::jit::EliminateDeadCode(graph);
  return true;
}

}  // namespace chorus
