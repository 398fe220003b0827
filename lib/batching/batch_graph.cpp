#include "chorus/batch_graph.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/constant_pooling.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include "lib/batching/batcher.h"
#include "lib/batching/clone_node.h"
#include "lib/batching/draws_numbers.h"
#include "lib/batching/list_length.h"
#include "lib/support/choice.h"
#include "lib/support/marker_ops.h"

namespace chorus {
namespace {

using torch::jit::WithInsertPoint;

std::string opOf(const Node* node) { return node->kind().toQualString(); }

}  // namespace

BatchedGraph Batcher::run(bool stack_outputs) {
  visitBlock(*graph_.block());
  addOutputs(stack_outputs);
  torch::jit::EliminateDeadCode(fused_);
  torch::jit::ConstantPooling(fused_);
  fused_->lint();
  result_.graph = fused_;
  return std::move(result_);
}

void Batcher::addInputs(const std::vector<bool>& stacked_inputs) {
  if (stacked_inputs.size() != graph_.inputs().size()) {
    throw Refused(internalError("batchGraph: " + std::to_string(stacked_inputs.size()) +
                                " flags for " + std::to_string(graph_.inputs().size()) +
                                " inputs"));
  }
  for (size_t i = 0; i < graph_.inputs().size(); ++i) {
    const Value* input = graph_.inputs()[i];
    Value* copy = fused_->addInput();
    copy->setType(c10::unshapedType(input->type()));
    if (stacked_inputs[i] && first_stacked_ == nullptr) first_stacked_ = copy;
    bind(input, {copy, stacked_inputs[i]});
  }
  if (first_stacked_ == nullptr) throw Refused(internalError("batchGraph: no input is stacked"));
}

void Batcher::addOutputs(bool stack_outputs) {
  for (const Value* output : graph_.outputs()) {
    Operand operand = operandOf(output);
    if (stack_outputs && !operand.stacked)
      operand = {stackedOf(graph_.return_node(), operand), true};
    fused_->registerOutput(operand.value);
    result_.stacked_outputs.push_back(operand.stacked);
  }
}

/// int K, read from a stacked input at the top of the graph: K is data, never a literal.
Value* Batcher::memberCount() {
  if (member_count_ == nullptr) {
    const WithInsertPoint top(*fused_->nodes().begin());
    member_count_ = fused_->insert(c10::aten::size, {first_stacked_, 0});
    member_count_->setDebugName("K");
  }
  return member_count_;
}

void Batcher::bind(const Value* value, Operand operand) {
  values_[value] = operand;
  if (value->hasDebugName() && !operand.value->hasDebugName()) {
    operand.value->setDebugName(value->debugName());
  }
  const auto* type = value->type()->castRaw<c10::TensorType>();
  if (type == nullptr || !type->dim()) return;
  ranks_[operand.value] = static_cast<int64_t>(*type->dim());
  operand.value->setType(fusedType(*type, operand.stacked));
}

Value* Batcher::stackedOf(const Node* node, Operand operand) {
  return contextOf(node).stackedOf(operand);
}

Operand Batcher::operandOf(const Value* value) {
  if (const auto found = values_.find(value); found != values_.end()) return found->second;
  const auto list = lists_.find(value);
  if (list == lists_.end()) {
    throw Refused(internalError(opOf(value->node()) + ": %" + value->debugName() +
                                " is used before it is made"));
  }
  // A tensor list becomes a value only when somebody needs it as one.
  const bool stacked = std::ranges::any_of(list->second, &Operand::stacked);
  std::vector<Value*> elements;
  for (const Operand& element : list->second) {
    const bool none = element.value->type()->kind() == c10::TypeKind::NoneType;
    elements.push_back(stacked && !none ? stackedOf(value->node(), element) : element.value);
  }
  const auto element_type = value->type()->expectRef<c10::ListType>().getElementType();
  Node* made = fused_->insertNode(fused_->createList(c10::unshapedType(element_type), elements));
  return {made->output(), stacked};
}

/// Operands of a list. One that an op returned is unpacked here, where its length follows from the
/// member's graph.
std::optional<std::vector<Operand>> Batcher::elementsOf(const Value* list) {
  if (const auto found = lists_.find(list); found != lists_.end()) return found->second;
  const auto length = listLength(list);
  if (!length) return std::nullopt;
  const Operand operand = operandOf(list);
  Node* unpacked = fused_->createListUnpack(operand.value, *length);
  unpacked->insertAfter(operand.value->node());
  std::vector<Operand> elements;
  for (Value* output : unpacked->outputs()) {
    if (const auto rank = elementRank(list)) ranks_[output] = *rank;
    elements.push_back({output, operand.stacked});
  }
  lists_[list] = elements;
  return elements;
}

void Batcher::visitBlock(const torch::jit::Block& block) {
  for (const Region& step : stepsOf(block, dependence_)) {
    if (step.reason.empty()) {
      visit(step.nodes.front());
    } else {
      perMember(step);
    }
  }
}

void Batcher::visit(const Node* node) {
  if (isChoice(node)) return visitChoice(node);
  Node* before = fused_->insertPoint()->prev();
  if (!visitStructure(node)) visitOp(node);
  copyProvenance(node, before);
}

/// Nodes that compute nothing: constants, lists, tuples and their parts.
bool Batcher::visitStructure(const Node* node) {
  if (node->kind() == c10::prim::Constant) {
    copyShared(node);
    return true;
  }
  const bool list =
      node->kind() == c10::prim::ListConstruct && isTensorListType(node->output()->type());
  if (list || node->kind() == c10::prim::TupleConstruct) {
    std::vector<Operand> elements;
    for (const Value* input : node->inputs()) elements.push_back(operandOf(input));
    lists_[node->output()] = elements;
    return true;
  }
  const bool unpacks =
      node->kind() == c10::prim::TupleUnpack ||
      (node->kind() == c10::prim::ListUnpack && isTensorListType(node->input()->type()));
  if (unpacks) {
    unpack(node);
    return true;
  }
  if (node->kind() == c10::prim::ListConstruct || node->kind() == c10::prim::ListUnpack) {
    copyShared(node);  // of numbers
    return true;
  }
  return visitItem(node);
}

void Batcher::unpack(const Node* node) {
  const auto elements = elementsOf(node->input());
  if (elements && elements->size() == node->outputs().size()) {
    for (size_t i = 0; i < elements->size(); ++i) bind(node->output(i), (*elements)[i]);
    return;
  }
  const Operand operand = operandOf(node->input());
  Node* copy = fused_->insertNode(cloneNode(*fused_, node, {operand.value}));
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    bind(node->output(i), {copy->output(i), operand.stacked});
  }
}

/// x = list[i] of tensors.
bool Batcher::visitItem(const Node* node) {
  const bool list_item =
      opOf(node) == "aten::__getitem__" && isTensorListType(node->input(0)->type());
  if (!list_item && node->kind() != c10::prim::TupleIndex) return false;
  const auto index = torch::jit::toIValue(node->input(1));
  if (const auto elements = elementsOf(node->input(0)); elements && index) {
    const int64_t size = static_cast<int64_t>(elements->size());
    const int64_t i = index->toInt() < 0 ? index->toInt() + size : index->toInt();
    if (i < 0 || i >= size) {
      throw Refused(
          error("index " + std::to_string(index->toInt()) + " of a list of " + std::to_string(size),
                placeOf(node)));
    }
    bind(node->output(), (*elements)[static_cast<size_t>(i)]);
    return true;
  }
  const Operand operand = operandOf(node->input(0));
  const Operand at = operandOf(node->input(1));
  Node* copy = fused_->insertNode(cloneNode(*fused_, node, {operand.value, at.value}));
  bind(node->output(), {copy->output(), operand.stacked});
  return true;
}

void Batcher::visitOp(const Node* node) {
  checkTypes(node);
  if (node->kind() == c10::prim::If) return visitIf(node);
  if (node->kind() == c10::prim::Loop) return visitLoop(node);
  RuleContext context = contextOf(node);
  const RuleRow* row = findRule(opOf(node));
  const bool random = drawsNumbers(node, row);
  if (!random && !context.anyStacked()) {
    copyShared(node);
    decide(node, Decision::Kind::Shared, "", "");
    return;
  }
  std::string reason;
  if (applyRule(node, context, row, reason)) {
    decide(node, Decision::Kind::Fused, row->family, "");
    return;
  }
  perMember({{node}, reason});
}

bool Batcher::applyRule(const Node* node, RuleContext& context, const RuleRow* row,
                        std::string& reason) {
  if (row == nullptr) {
    reason = "no batching rule";
    return false;
  }
  if (isDisabled(node, *row)) {
    reason = "disabled";
    return false;
  }
  RuleResult outputs;
  try {
    outputs = row->rule(context);
  } catch (const Refused&) {
    throw;
  } catch (const std::exception& broken) {
    Message message = internalError("batching rule of " + row->op + ": " + broken.what());
    message.place = placeOf(node);
    throw Refused(std::move(message));
  }
  if (!outputs) {
    reason = context.reason().empty() ? "this form has no rule" : context.reason();
    return false;
  }
  if (outputs->size() != node->outputs().size()) {
    throw Refused(internalError("batching rule of " + row->op + ": " +
                                std::to_string(outputs->size()) + " results for " +
                                std::to_string(node->outputs().size()) + " outputs"));
  }
  for (size_t i = 0; i < outputs->size(); ++i) bind(node->output(i), (*outputs)[i]);
  return true;
}

bool Batcher::isDisabled(const Node* node, const RuleRow& row) const {
  const std::string op = opOf(node);
  return disabled_.contains(op) || disabled_.contains(op.substr(op.find("::") + 2)) ||
         disabled_.contains(row.family);
}

void Batcher::copyShared(const Node* node) {
  std::vector<Value*> inputs;
  for (const Value* input : node->inputs()) inputs.push_back(operandOf(input).value);
  Node* copy = fused_->insertNode(cloneNode(*fused_, node, inputs));
  for (size_t i = 0; i < node->outputs().size(); ++i)
    bind(node->output(i), {copy->output(i), false});
}

/// Everything emitted since `before` comes from `node`: messages about the fused graph name the
/// user's own line.
void Batcher::copyProvenance(const Node* node, Node* before) {
  const std::function<void(Node*)> mark = [&](Node* emitted) {
    emitted->copyMetadata(const_cast<Node*>(node));  // only reads it
    for (auto* block : emitted->blocks()) {
      for (Node* inner : block->nodes()) mark(inner);
    }
  };
  for (Node* emitted = fused_->insertPoint()->prev(); emitted != before; emitted = emitted->prev())
    mark(emitted);
}

RuleContext Batcher::contextOf(const Node* node) {
  RuleContext::Environment environment;
  environment.operand = [this](const Value* value) { return operandOf(value); };
  environment.elements = [this](const Value* list) { return elementsOf(list); };
  environment.member_count = [this] { return memberCount(); };
  environment.rank = [this](const Value* value) -> std::optional<int64_t> {
    const auto found = ranks_.find(value);
    return found == ranks_.end() ? std::nullopt : std::optional(found->second);
  };
  return {*fused_, node, std::move(environment)};
}

void Batcher::checkTypes(const Node* node) const {
  const auto check = [&](const Value* value) {
    const auto* type = value->type()->castRaw<c10::TensorType>();
    if (type == nullptr || type->dim()) return;
    Message message =
        internalError(opOf(node) + ": the rank of %" + value->debugName() + " is not known");
    message.place = placeOf(node);
    throw Refused(std::move(message));
  };
  for (const Value* input : node->inputs()) check(input);
  for (const Value* output : node->outputs()) check(output);
}

void Batcher::decide(const Node* node, Decision::Kind kind, const std::string& family,
                     const std::string& reason) {
  result_.decisions.push_back({opOf(node), kind, family, reason, placeOf(node)});
}

BatchedGraph batchGraph(const Graph& graph, const std::vector<bool>& stacked_inputs,
                        bool stack_outputs, const std::set<std::string>& disabled,
                        const std::vector<size_t>& variants) {
  registerMarkerOps();
  return Batcher(graph, stacked_inputs, disabled, variants).run(stack_outputs);
}

}  // namespace chorus
