#include "runtime/solo.h"

#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/csrc/jit/serialization/import.h>

#include "lib/export/module_tree.h"
#include "runtime/solo_recurrent.h"

namespace chorus {
namespace {

using torch::jit::Module;
using torch::jit::Stack;

/// dropout(x, p, train) with the mask of the counters.
at::Tensor drawnDropout(const at::Tensor& x, double p, bool train, bool per_channel) {
  if (!train || p == 0) return x;
  at::Tensor like = x;
  for (int64_t d = 2; per_channel && d < x.dim(); ++d) like = like.narrow(d, 0, 1);
  return x * keepMask(like, p, 0, false);
}

void registerSoloOps() {
  static const bool registered = [] {
    for (const bool per_channel : {false, true}) {
      for (const bool in_place : {false, true}) {
        const std::string name =
            std::string(per_channel ? "feature_dropout" : "dropout") + (in_place ? "_" : "");
        const std::string self = in_place ? "Tensor(a!)" : "Tensor";
        torch::jit::registerOperator(torch::jit::Operator(
            "chorus::solo_" + name + "(" + self + " x, float p, bool train) -> " + self,
            [=](Stack& stack) {
              const bool train = torch::jit::pop(stack).toBool();
              const double p = torch::jit::pop(stack).toDouble();
              at::Tensor x = torch::jit::pop(stack).toTensor();
              const at::Tensor y = drawnDropout(x, p, train, per_channel);
              torch::jit::push(stack, in_place ? x.copy_(y) : y);
            },
            c10::AliasAnalysisKind::FROM_SCHEMA));
      }
    }
    return true;
  }();
  static_cast<void>(registered);
}

void replaceDropouts(torch::jit::Block* block) {
  static const std::set<std::string> names = {"dropout", "dropout_", "feature_dropout",
                                              "feature_dropout_"};
  std::vector<std::pair<Node*, c10::Symbol>> found;
  for (Node* node : block->nodes()) {
    for (torch::jit::Block* inner : node->blocks()) replaceDropouts(inner);
    const std::string name = node->kind().toUnqualString();
    if (node->kind().is_aten() && names.count(name))
      found.emplace_back(node, c10::Symbol::fromQualString("chorus::solo_" + name));
    if (const auto kind = soloRecurrent(node)) found.emplace_back(node, *kind);
  }
  for (const auto& [node, kind] : found) {
    torch::jit::WithInsertPoint here(node);
    torch::jit::Graph& graph = *node->owningGraph();
    Node* made = graph.insertNode(graph.create(kind, node->inputs(), node->outputs().size()));
    for (size_t i = 0; i < node->outputs().size(); ++i)
      made->output(i)->setType(node->output(i)->type());
    node->replaceAllUsesWith(made);
    node->destroy();
  }
}

}  // namespace

void flattenResult(const torch::jit::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    tensors.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
  } else if (value.isTuple()) {
    for (const auto& element : value.toTupleRef().elements()) flattenResult(element, tensors);
  } else if (value.isList()) {
    for (const auto& element : value.toListRef()) flattenResult(element, tensors);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) flattenResult(entry.value(), tensors);
  } else {
    throw Refused(internalError("a model returns a " + value.tagKind()));
  }
}

SoloMember::SoloMember(const Member& member, std::optional<at::ScalarType> dtype)
    : module_(torch::jit::load(member.path)) {
  registerSoloOps();
  registerSoloRecurrentOps();
  if (dtype) module_.to(*dtype);
  {
    at::NoGradGuard no_grad;
    for (const TensorSlot& slot : member.slots) {
      if (slot.role == Role::Constant) {
        tensors_.emplace_back();
        continue;
      }
      // A tied tensor has one name for each place; `to` has made them tensors of their own.
      at::Tensor tensor = tensorAt(module_, slot.name);
      tensor.copy_(slot.value);
      for (const std::string& alias : slot.aliases) tensorAt(module_, alias).set_data(tensor);
      tensors_.push_back(tensor);
    }
  }
  code_ = module_.get_method("forward").graph()->copy();
  torch::jit::Inline(*code_);
  replaceDropouts(code_->block());
}

std::vector<at::Tensor> SoloMember::forward(const std::vector<at::Tensor>& inputs, bool training,
                                            const RandomContext& random) {
  const RandomScope scope(random);
  module_.train(training);
  Stack stack{module_._ivalue()};
  for (const at::Tensor& input : inputs) stack.emplace_back(input);
  while (stack.size() < code_->inputs().size()) stack.emplace_back();
  torch::jit::GraphExecutor(code_, "solo").run(stack);
  std::vector<at::Tensor> tensors;
  flattenResult(stack.back(), tensors);
  return tensors;
}

const Node* undrawableOp(const Member& member) {
  static const std::set<std::string> drawn = {"aten::dropout", "aten::feature_dropout"};
  static const std::set<std::string> fixed = {
      "aten::rrelu",    "aten::lstm",     "aten::gru",
      "aten::rnn_tanh", "aten::rnn_relu", "aten::scaled_dot_product_attention"};
  for (const Node* node : member.train.graph->nodes()) {
    const std::string op = node->kind().toQualString();
    if (drawn.count(op) || !node->isNondeterministic()) continue;
    if (fixed.count(op)) continue;
    return node;
  }
  return nullptr;
}

}  // namespace chorus
