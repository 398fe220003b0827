#include "runtime/solo.h"

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/csrc/jit/serialization/import.h>

#include "lib/export/module_tree.h"
#include "lib/support/explicit_autocast.h"
#include "lib/support/inline_calls.h"
#include "lib/support/random_ops.h"
#include "passes/counter_distributions.h"
#include "runtime/solo_recurrent.h"

namespace chorus {
namespace {

using torch::jit::Module;
using torch::jit::Stack;

const std::set<std::string> kDropouts = {
    "dropout",  "feature_dropout",  "alpha_dropout",  "feature_alpha_dropout",
    "dropout_", "feature_dropout_", "alpha_dropout_", "feature_alpha_dropout_"};

/// The dropout family's (x, p, train) with the mask of the counters.
at::Tensor drawnDropout(const at::Tensor& x, double p, bool train, const std::string& name) {
  if (!train || p == 0) return x;
  at::Tensor like = x;
  const bool per_channel = name.find("feature") != std::string::npos;
  for (int64_t d = 2; per_channel && d < x.dim(); ++d) like = like.narrow(d, 0, 1);
  const at::Tensor mask = keepMask(like, p, 0, false);
  if (name.find("alpha") == std::string::npos || p == 1) return x * mask;
  // Klambauer et al., "Self-Normalizing Neural Networks", section 3: dropped elements become
  // -alpha'.
  constexpr double kAlpha = 1.7580993408473766;
  const double a = 1 / std::sqrt((1 - p) * (1 + p * kAlpha * kAlpha));
  const at::Tensor kept = mask != 0;
  return at::where(kept, x, at::full_like(x, -kAlpha)) * a + a * p * kAlpha;
}

/// scaled_dot_product_attention with the mask of the counters.
void drawnAttention(Stack& stack) {
  const bool grouped = torch::jit::pop(stack).toBool();
  const auto scale = torch::jit::pop(stack).toOptional<double>();
  const bool causal = torch::jit::pop(stack).toBool();
  const double p = torch::jit::pop(stack).toDouble();
  auto mask = torch::jit::pop(stack).toOptional<at::Tensor>();
  const at::Tensor value = torch::jit::pop(stack).toTensor();
  const at::Tensor key = torch::jit::pop(stack).toTensor();
  const at::Tensor query = torch::jit::pop(stack).toTensor();
  if (p == 0) {
    torch::jit::push(stack, at::scaled_dot_product_attention(query, key, value, mask, p, causal,
                                                             scale, grouped));
    return;
  }
  if (mask && mask->scalar_type() == at::kBool) {  // what it hides; the op below adds it
    const at::Tensor hidden = mask->logical_not();
    mask = at::zeros(hidden.sizes(), query.options())
               .masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }
  std::vector<int64_t> sizes = query.sizes().vec();  // [...,L,S]
  sizes.back() = key.size(-2);
  const at::Tensor keep = keepMask(query.detach().new_empty(sizes), p, 0, false) != 0;
  torch::jit::push(stack, std::get<0>(at::_scaled_dot_product_attention_math(
                              query, key, value, mask, p, causal, keep, scale, grouped)));
}

void registerSoloOps() {
  static const bool registered = [] {
    torch::jit::registerOperator(torch::jit::Operator(
        "chorus::solo_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, float "
        "dropout_p, bool is_causal, float? scale, bool enable_gqa) -> Tensor",
        drawnAttention, c10::AliasAnalysisKind::FROM_SCHEMA));
    for (const std::string& name : kDropouts) {
      const bool in_place = name.back() == '_';
      const std::string self = in_place ? "Tensor(a!)" : "Tensor";
      torch::jit::registerOperator(torch::jit::Operator(
          "chorus::solo_" + name + "(" + self + " x, float p, bool train) -> " + self,
          [=](Stack& stack) {
            const bool train = torch::jit::pop(stack).toBool();
            const double p = torch::jit::pop(stack).toDouble();
            at::Tensor x = torch::jit::pop(stack).toTensor();
            const at::Tensor y = drawnDropout(x, p, train, name);
            torch::jit::push(stack, in_place ? x.copy_(y) : y);
          },
          c10::AliasAnalysisKind::FROM_SCHEMA));
    }
    return true;
  }();
  static_cast<void>(registered);
}

/// What draws is made of the counters' numbers: `node` becomes their value, in place where it
/// writes.
void replaceDistribution(Node* node) {
  const torch::jit::WithInsertPoint here(node);
  Value* value = drawnValue(node, 0);
  if (!value) return;
  torch::jit::Graph& graph = *node->owningGraph();
  if (node->schema().is_mutable()) value = graph.insert(c10::aten::copy_, {node->input(0), value});
  node->output()->replaceAllUsesWith(value);
  node->destroy();
}

void replaceDropouts(torch::jit::Block* block) {
  std::vector<std::pair<Node*, c10::Symbol>> found;
  std::vector<Node*> distributions;
  for (Node* node : block->nodes()) {
    for (torch::jit::Block* inner : node->blocks()) replaceDropouts(inner);
    const std::string name = node->kind().toUnqualString();
    if (node->kind().is_aten() && name == "scaled_dot_product_attention")
      found.emplace_back(node, c10::Symbol::fromQualString("chorus::solo_attention"));
    if (isDistribution(node)) distributions.push_back(node);
    if (node->kind().is_aten() && kDropouts.count(name))
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
  for (Node* node : distributions) replaceDistribution(node);
}

/// Module::to casts integers as well: positions are no indices any more.
void castFloating(Module& module, at::ScalarType dtype) {
  const auto cast = [&](const at::Tensor& tensor) {
    if (at::isFloatingType(tensor.scalar_type())) tensor.set_data(tensor.detach().to(dtype));
  };
  for (const at::Tensor& parameter : module.parameters()) cast(parameter);
  for (const at::Tensor& buffer : module.buffers()) cast(buffer);
}

}  // namespace

void flattenResult(const torch::jit::IValue& value, const OutputTree& tree,
                   std::vector<at::Tensor>& tensors) {
  if (tree.kind == OutputTree::Kind::None) return;
  size_t next = 0;
  const auto child = [&](const torch::jit::IValue& element) {
    flattenResult(element, tree.children.at(next++), tensors);
  };
  if (value.isTensor()) {
    tensors.push_back(value.toTensor());
  } else if (value.isNone()) {
    tensors.push_back(at::empty({0}));
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
  } else if (value.isTuple()) {
    for (const auto& element : value.toTupleRef().elements()) child(element);
  } else if (value.isList()) {
    for (const auto& element : value.toListRef()) child(element);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) child(entry.value());
  } else {
    throw Refused(internalError("a model returns a " + value.tagKind()));
  }
}

SoloMember::SoloMember(const Member& member, std::optional<at::ScalarType> dtype)
    : module_(torch::jit::load(member.path)), output_(member.output) {
  registerSoloOps();
  registerSoloRecurrentOps();
  if (dtype) castFloating(module_, *dtype);
  {
    at::NoGradGuard no_grad;
    for (const TensorSlot& slot : member.slots) {
      names_.push_back(slot.name);
      if (slot.role == Role::Constant) {
        tensors_.emplace_back();
        continue;
      }
      // A tied tensor has one name for each place; a cast has made them tensors of their own.
      at::Tensor tensor = tensorAt(module_, slot.name);
      tensor.copy_(slot.value);
      for (const std::string& alias : slot.aliases) tensorAt(module_, alias).set_data(tensor);
      tensors_.push_back(tensor);
    }
  }
  code_ = module_.get_method("forward").graph()->copy();
  inlineCalls(*code_);
  makeAutocastExplicit(code_);
  replaceDropouts(code_->block());
}

std::vector<at::Tensor> SoloMember::forward(const std::vector<at::Tensor>& inputs, bool training,
                                            const RandomContext& random) {
  const RandomScope scope(random);
  module_.train(training);
  Stack stack{module_._ivalue()};
  for (const at::Tensor& input : inputs) stack.emplace_back(input);
  const auto schema = module_.get_method("forward").function().getSchema();
  while (stack.size() < code_->inputs().size())
    stack.push_back(schema.arguments()[stack.size()].default_value().value_or(c10::IValue()));
  torch::jit::GraphExecutor(code_, "solo").run(stack);
  // `self.buffer = ...` has put another tensor in the place of a slot's.
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].defined()) tensors_[i] = tensorAt(module_, names_[i]);
  }
  std::vector<at::Tensor> tensors;
  flattenResult(stack.back(), output_, tensors);
  return tensors;
}

const Node* undrawableOp(const Member& member) {
  for (const Node* node : member.train.graph->nodes()) {
    if (!drawsFromCounters(node) || kDropouts.count(node->kind().toUnqualString())) continue;
    if (!isDistribution(node)) return node;
  }
  return nullptr;
}

}  // namespace chorus
