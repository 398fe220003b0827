#include "lib/batching/varying.h"

#include <torch/csrc/jit/ir/constants.h>

#include "lib/batching/varying_emit.h"

namespace chorus {
namespace {

std::optional<at::ScalarType> dtypeOf(const Value* value) {
  const auto* type = value->type()->castRaw<c10::TensorType>();
  return type ? type->scalarType() : std::nullopt;
}

bool isHalf(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

c10::TypePtr typeLike(const Value* like, std::optional<at::ScalarType> dtype) {
  const auto& type = like->type()->expectRef<c10::TensorType>();
  return c10::TensorType::create(dtype ? dtype : type.scalarType(), type.device(),
                                 type.symbolic_sizes(), c10::VaryingShape<c10::Stride>{},
                                 std::nullopt);
}

const VaryingForms& allForms() {
  static const VaryingForms forms = [] {
    VaryingForms all = varyingActivations();
    all.merge(varyingArithmetic());
    all.merge(varyingNorms());
    all.merge(varyingRandom());
    return all;
  }();
  return forms;
}

/// The op itself with each member's numbers, read back from the tensors: run once per member.
std::vector<Value*> perMember(VaryingEmitter& e) {
  std::vector<Value*> inputs = e.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!e.varies(e.node()->schema().arguments()[i].name())) continue;
    Value* number = e.raw(e.node()->schema().arguments()[i].name());
    // An int that is read back could be a size.
    const auto dtype = dtypeOf(e.result());
    const bool fractional = dtypeOf(number) == at::kDouble || (dtype && at::isFloatingType(*dtype));
    Node* read = e.readNumber(fractional ? c10::aten::Float : c10::aten::Int, number);
    inputs[i] = read->output()->setType(fractional ? c10::TypePtr(c10::FloatType::get())
                                                   : c10::TypePtr(c10::IntType::get()));
  }
  return e.again(inputs)->outputs().vec();
}

}  // namespace

VaryingEmitter::VaryingEmitter(Node* node, const std::map<size_t, Value*>& numbers,
                               VaryingOptions options)
    : node_(node), graph_(*node->owningGraph()), numbers_(numbers), options_(options) {}

size_t VaryingEmitter::indexOf(const std::string& argument) const {
  return static_cast<size_t>(node_->schema().argumentIndexWithName(argument).value());
}

bool VaryingEmitter::has(const std::string& argument) const {
  return node_->schema().argumentIndexWithName(argument).has_value();
}

bool VaryingEmitter::varies(const std::string& argument) const {
  return has(argument) && numbers_.contains(indexOf(argument));
}

bool VaryingEmitter::isFlag(const std::string& argument, bool value) const {
  const auto known = torch::jit::toIValue(input(argument));
  return known && known->isBool() && known->toBool() == value;
}

bool VaryingEmitter::isText(const std::string& argument, const std::string& text) const {
  const auto known = torch::jit::toIValue(input(argument));
  return known && known->isString() && known->toStringRef() == text;
}

bool VaryingEmitter::isNone(const std::string& argument) const {
  const auto known = torch::jit::toIValue(input(argument));
  return (known && known->isNone()) || input(argument)->type()->kind() == c10::TypeKind::NoneType;
}

std::string VaryingEmitter::overload() const { return node_->schema().overload_name(); }

Value* VaryingEmitter::wide(size_t i) {
  Value* x = input(i);
  const auto from = dtypeOf(x), to = dtypeOf(result());
  if (!from || !to) refuse("the dtype of an operand is not known");
  at::ScalarType wanted = *from;
  if (at::isIntegralType(*from, true) && at::isFloatingType(*to)) wanted = *to;
  if (*from == at::kBool) wanted = *to;  // beside a number: 2 is not True
  if (isHalf(wanted)) wanted = at::kFloat;
  if (wanted == *from) return x;
  return emit("aten::to", {x, static_cast<int64_t>(wanted)}, x, wanted);
}

Value* VaryingEmitter::raw(const std::string& argument) const {
  return numbers_.at(indexOf(argument));
}

Value* VaryingEmitter::number(const std::string& argument, Value* like) {
  if (!varies(argument)) return input(argument);
  Value* value = raw(argument);
  return emit("aten::type_as", {value, like}, value, dtypeOf(like));
}

Value* VaryingEmitter::numberTensor(const std::string& argument, Value* like) {
  if (varies(argument)) return number(argument, like);
  Value* sibling = numbers_.begin()->second;
  Value* typed = emit("aten::type_as", {sibling, like}, sibling, dtypeOf(like));
  return emit("aten::full_like", {typed, input(argument)}, typed);
}

Value* VaryingEmitter::emit(const std::string& op,
                            const std::vector<torch::jit::NamedValue>& arguments, Value* like,
                            std::optional<at::ScalarType> dtype,
                            const std::vector<torch::jit::NamedValue>& keywords) {
  Value* value = graph_.insert(c10::Symbol::fromQualString(op), arguments, keywords);
  value->node()->copyMetadata(node_);
  return value->setType(typeLike(like, dtype));
}

Value* VaryingEmitter::emitForeign(const std::string& op, const std::vector<Value*>& inputs,
                                   Value* like) {
  Node* made = graph_.insertNode(graph_.create(c10::Symbol::fromQualString(op), inputs));
  made->copyMetadata(node_);
  return made->output()->setType(typeLike(like, std::nullopt));
}

Node* VaryingEmitter::readNumber(c10::Symbol op, Value* number) {
  Node* made = graph_.insertNode(graph_.create(op, {number}));
  made->copyMetadata(node_);
  return made;
}

Node* VaryingEmitter::again(const std::vector<Value*>& inputs) {
  Node* copy = graph_.create(node_->kind(), inputs, node_->outputs().size());
  copy->copyMetadata(node_);
  for (size_t i = 0; i < copy->outputs().size(); ++i) {
    copy->output(i)->setType(node_->output(i)->type());
  }
  return graph_.insertNode(copy);
}

Value* VaryingEmitter::literal(const c10::IValue& value) { return graph_.insertConstant(value); }

Value* VaryingEmitter::narrow(Value* value) {
  const auto from = dtypeOf(value), to = dtypeOf(result());
  if (!to || from == to) return value;
  return emit("aten::to", {value, static_cast<int64_t>(*to)}, value, *to);
}

void VaryingEmitter::refuse(const std::string& why) const {
  throw Refused(unsupported(std::string(node_->kind().toUnqualString()) +
                                " with one number per member: " + why,
                            placeOf(node_))
                    .helpWith("give all members the same value, or train them apart"));
}

bool hasVaryingForm(const std::string& op) { return allForms().contains(op); }

void liftVarying(Node* node, const std::map<size_t, Value*>& numbers,
                 const VaryingOptions& options) {
  VaryingEmitter emitter(node, numbers, options);
  const auto form = allForms().find(node->kind().toQualString());
  const torch::jit::WithInsertPoint here(node);
  const std::vector<Value*> outputs =
      form == allForms().end() ? perMember(emitter) : form->second(emitter);
  for (size_t i = 0; i < outputs.size(); ++i) node->output(i)->replaceAllUsesWith(outputs[i]);
  node->destroy();
}

}  // namespace chorus
