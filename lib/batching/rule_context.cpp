#include <torch/csrc/jit/frontend/schema_matching.h>
#include <torch/csrc/jit/ir/constants.h>

#include "chorus/batching_rule.h"
#include "lib/batching/clone_node.h"

namespace chorus {
namespace {

using c10::IValue;
using torch::jit::NamedValue;

Refused broken(const Node* node, const std::string& what) {
  Message message = internalError(std::string(node->kind().toQualString()) + ": " + what);
  message.place = placeOf(node);
  return Refused(std::move(message));
}

const c10::TensorType& tensorType(const Node* node, const Value* value) {
  const auto* type = value->type()->castRaw<c10::TensorType>();
  if (type == nullptr) {
    throw broken(node, "%" + value->debugName() + " is " + value->type()->str() + ", not a tensor");
  }
  return *type;
}

int64_t rankOf(const Node* node, const Value* value) {
  const auto rank = tensorType(node, value).dim();
  if (!rank) throw broken(node, "the rank of %" + value->debugName() + " is not known");
  return static_cast<int64_t>(*rank);
}

}  // namespace

RuleContext::RuleContext(Graph& fused, const Node* node, Environment environment)
    : fused_(fused), node_(node), environment_(std::move(environment)) {}

std::string RuleContext::op() const { return node_->kind().toQualString(); }

size_t RuleContext::indexOf(const std::string& argument) const {
  const auto index = node_->schema().argumentIndexWithName(argument);
  if (!index) throw broken(node_, "its schema has no argument '" + argument + "'");
  return static_cast<size_t>(*index);
}

bool RuleContext::has(const std::string& argument) const {
  return node_->schema().argumentIndexWithName(argument).has_value();
}

bool RuleContext::isNone(size_t i) const {
  return node_->inputs().at(i)->type()->kind() == c10::TypeKind::NoneType ||
         (constant(i) && constant(i)->isNone());
}

bool RuleContext::isTensor(size_t i) const {
  return node_->inputs().at(i)->type()->kind() == c10::TypeKind::TensorType && !isNone(i);
}

bool RuleContext::isTensorList(size_t i) const {
  return isTensorListType(node_->inputs().at(i)->type());
}

std::optional<IValue> RuleContext::constant(size_t i) const {
  const Value* value = node_->inputs().at(i);
  if (auto known = torch::jit::toIValue(value)) return known;
  if (value->node()->kind() != c10::prim::ListConstruct || isTensorList(i)) return std::nullopt;
  std::vector<int64_t> ints;
  for (const Value* element : value->node()->inputs()) {
    const auto known = torch::jit::toIValue(element);
    if (!known || !known->isInt()) return std::nullopt;
    ints.push_back(known->toInt());
  }
  return IValue(ints);
}

std::optional<int64_t> RuleContext::constantInt(size_t i) const {
  const auto known = constant(i);
  if (!known || !known->isInt()) return std::nullopt;
  return known->toInt();
}

std::optional<std::vector<int64_t>> RuleContext::constantInts(size_t i) const {
  const auto known = constant(i);
  if (!known) return std::nullopt;
  if (known->isInt()) return std::vector<int64_t>{known->toInt()};
  if (!known->isIntList()) return std::nullopt;
  return known->toIntVector();
}

int64_t RuleContext::rank(size_t i) const { return rankOf(node_, node_->inputs().at(i)); }
int64_t RuleContext::outputRank(size_t i) const { return rankOf(node_, node_->outputs().at(i)); }

std::optional<at::ScalarType> RuleContext::dtype(size_t i) const {
  return tensorType(node_, node_->inputs().at(i)).scalarType();
}

std::optional<at::ScalarType> RuleContext::outputDtype(size_t i) const {
  return tensorType(node_, node_->outputs().at(i)).scalarType();
}

std::vector<std::optional<int64_t>> RuleContext::sizes(size_t i) const {
  const auto& shape = tensorType(node_, node_->inputs().at(i)).sizes();
  const auto known = shape.sizes();
  if (!known) return std::vector<std::optional<int64_t>>(static_cast<size_t>(rank(i)));
  return *known;
}

Operand RuleContext::operand(size_t i) const { return environment_.operand(node_->inputs().at(i)); }

std::vector<Operand> RuleContext::elements(size_t i) const {
  const auto known = environment_.elements(node_->inputs().at(i));
  if (known) return *known;
  throw Refused(
      unsupported(op() + " reads a list of tensors whose length is not known", placeOf(node_)));
}

bool RuleContext::knowsElements(size_t i) const {
  return environment_.elements(node_->inputs().at(i)).has_value();
}

std::optional<at::ScalarType> RuleContext::elementDtype(size_t i, size_t j) const {
  const Node* list = node_->inputs().at(i)->node();
  if (list->kind() != c10::prim::ListConstruct) return std::nullopt;
  return tensorType(node_, list->inputs().at(j)).scalarType();
}

std::optional<int64_t> RuleContext::memberRank(Operand operand) const {
  return environment_.rank(operand.value);
}

bool RuleContext::anyStacked() const {
  for (size_t i = 0; i < size(); ++i) {
    const bool listed = isTensorList(i) && knowsElements(i);
    if (listed ? std::ranges::any_of(elements(i), &Operand::stacked) : operand(i).stacked)
      return true;
  }
  return false;
}

std::vector<Value*> RuleContext::inputs() const {
  std::vector<Value*> values;
  for (size_t i = 0; i < size(); ++i) values.push_back(operand(i).value);
  return values;
}

Value* RuleContext::raiseRank(Value* stacked, int64_t from, int64_t rank) {
  if (from == rank) return stacked;
  // [K,C] -> [K,1,C]
  if (from + 1 == rank) return emit("aten::unsqueeze", {stacked, 1});
  // [K,C] -> [K,1,...,1,C]
  std::vector<int64_t> dims(static_cast<size_t>(rank - from) + 1, 1);
  dims[0] = -1;
  return emit("aten::unflatten", {stacked, 0, dims});
}

Value* RuleContext::stackedAtRank(size_t i, int64_t rank) {
  return raiseRank(stacked(i), this->rank(i), rank);
}

Value* RuleContext::stacked(size_t i) { return stackedOf(operand(i)); }

Value* RuleContext::stackedOf(Operand operand) {
  if (operand.stacked) return operand.value;
  const auto rank = memberRank(operand);
  if (!rank) {
    Value* sizes =
        emit("aten::add", {intList({memberCount()}), emit("aten::size", {operand.value})});
    return emit("aten::expand", {operand.value, sizes});
  }
  // [N,C] -> [K,N,C]
  std::vector<Value*> sizes(static_cast<size_t>(*rank) + 1, constantOf(-1));
  sizes[0] = memberCount();
  return emit("aten::expand", {operand.value, intList(sizes)});
}

Value* RuleContext::memberSizes(size_t i) {
  const Operand x = operand(i);
  Value* sizes = emit("aten::size", {x.value});
  if (!x.stacked) return sizes;
  return emit("aten::slice", {sizes, 1, IValue(), 1});
}

Value* RuleContext::countInFront(size_t i) {
  Value* list = operand(i).value;
  std::vector<Value*> ints = {memberCount()};
  if (const auto known = constantInts(i)) {
    for (const int64_t size : *known) ints.push_back(constantOf(size));
    return intList(ints);
  }
  if (list->node()->kind() == c10::prim::ListConstruct) {
    for (Value* size : list->node()->inputs()) ints.push_back(size);
    return intList(ints);
  }
  return emit("aten::add", {intList(ints), list});
}

Value* RuleContext::memberCount() { return environment_.member_count(); }

Value* RuleContext::constantOf(const IValue& value) { return fused_.insertConstant(value); }

Value* RuleContext::emit(const std::string& op, std::vector<NamedValue> arguments,
                         std::vector<NamedValue> keywords) {
  return fused_.insert(c10::Symbol::fromQualString(op), arguments, keywords, node_->sourceRange());
}

std::vector<Value*> RuleContext::emitAll(const std::string& op, std::vector<NamedValue> arguments,
                                         std::vector<NamedValue> keywords) {
  Value* result = emit(op, std::move(arguments), std::move(keywords));
  // LibTorch packs several outputs into a tuple: take the op's own outputs and drop the packing.
  Node* packed = result->node();
  if (packed->kind() != c10::prim::TupleConstruct) return packed->outputs().vec();
  const std::vector<Value*> outputs = packed->inputs().vec();
  packed->destroy();
  return outputs;
}

std::vector<Value*> RuleContext::emitSame(std::vector<Value*> inputs) {
  Node* node = fused_.insertNode(cloneNode(fused_, node_, inputs));
  if (node->maybeOperator() == nullptr) {
    std::string types;
    for (const Value* input : inputs) types += (types.empty() ? "" : ", ") + input->type()->str();
    throw broken(node_, "no such op on (" + types + ")");
  }
  return node->outputs().vec();
}

Value* RuleContext::intList(std::vector<Value*> ints) {
  return fused_.insertNode(fused_.createList(c10::IntType::get(), ints))->output();
}

Value* RuleContext::tensorList(const std::vector<Value*>& tensors) {
  return fused_.insertNode(fused_.createList(c10::TensorType::get(), tensors))->output();
}

Value* RuleContext::merge(Value* k_first) {
  Node* node = fused_.create(c10::Symbol::fromQualString("chorus::merge"), {k_first});
  return fused_.insertNode(node)->output();
}

Value* RuleContext::unmerge(Value* merged) {
  Node* node =
      fused_.create(c10::Symbol::fromQualString("chorus::unmerge"), {merged, memberCount()});
  return fused_.insertNode(node)->output();
}

RuleResult RuleContext::decline(std::string reason) {
  reason_ = std::move(reason);
  return std::nullopt;
}

}  // namespace chorus
