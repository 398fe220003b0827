// Ops on tensors and numbers: performed on both examples, and emitted unless the result is the same
// constant for every batch size.
#include <torch/csrc/jit/runtime/operator.h>

#include "lib/import/example_run.h"
#include "lib/import/specializer.h"

namespace chorus {
namespace {

using torch::jit::Stack;

bool makesTensors(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(),
                     [](const c10::Argument& a) { return isTensorType(a.type()); });
}

bool writes(const c10::FunctionSchema& schema) {
  return std::any_of(
      schema.arguments().begin(), schema.arguments().end(),
      [](const c10::Argument& a) { return a.alias_info() && a.alias_info()->isWrite(); });
}

/// A number, text or None that is the same for all data and batch sizes.
bool isSettled(const AbstractPtr& a) {
  return a->kind == Abstract::Kind::Plain && !a->varies && !a->number;
}

c10::TypePtr elementType(const Abstract& list) {
  if (list.type) {
    if (const auto type = list.type->cast<c10::ListType>()) return type->getElementType();
  }
  if (list.items.empty() || list.items[0]->kind == Abstract::Kind::Tensor)
    return c10::TensorType::get();
  return list.items[0]->first.type();
}

/// The overload of `name` that takes exactly these inputs by position (keyword-only ones too);
/// trailing arguments that have defaults may be left out. Graph::insert would rather convert a 0-d
/// tensor to a number. Null: there is none.
Node* insertByPosition(Graph& graph, const std::string& name, std::vector<Value*> inputs) {
  const auto kind = c10::Symbol::fromQualString(name);
  for (const auto& candidate : torch::jit::getAllOperatorsFor(kind)) {
    const c10::FunctionSchema& schema = candidate->schema();
    const auto& arguments = schema.arguments();
    bool fits = inputs.size() <= arguments.size();
    for (size_t i = 0; fits && i < arguments.size(); ++i) {
      fits = i < inputs.size() ? inputs[i]->type()->isSubtypeOf(*arguments[i].type())
                               : arguments[i].default_value().has_value() && !arguments[i].is_out();
    }
    if (!fits) continue;
    for (size_t i = inputs.size(); i < arguments.size(); ++i) {
      inputs.push_back(graph.insertConstant(*arguments[i].default_value()));
    }
    Node* made = graph.insertNode(graph.create(kind, inputs, schema.returns().size()));
    for (size_t i = 0; i < schema.returns().size(); ++i)
      made->outputs()[i]->setType(schema.returns()[i].type());
    return made;
  }
  return nullptr;
}

}  // namespace

c10::IValue Specializer::concrete(const AbstractPtr& a, bool second) const {
  switch (a->kind) {
    case Abstract::Kind::Plain:
      return second ? a->second : a->first;
    case Abstract::Kind::Tensor:
      return second ? a->cell->second : a->cell->first;
    case Abstract::Kind::List: {
      c10::impl::GenericList list(elementType(*a));
      for (const AbstractPtr& item : a->items) list.push_back(concrete(item, second));
      return list;
    }
    case Abstract::Kind::Tuple: {
      std::vector<c10::IValue> items;
      for (const AbstractPtr& item : a->items) items.push_back(concrete(item, second));
      return c10::ivalue::Tuple::create(items);
    }
    default:
      throw Refused(unsupported("a dict or an object is given to an operator"));
  }
}

Value* Specializer::device() {
  if (!device_) {
    // Never a literal: the device of the data, so that the graph moves with its module.
    torch::jit::WithInsertPoint first(graph_->block()->param_node()->next());
    Value* anchor = graph_->inputs().at(0);
    Node* made = graph_->insertNode(graph_->create(c10::prim::device, {anchor}));
    device_ = made->output()->setType(c10::DeviceObjType::get());
  }
  return device_;
}

Value* Specializer::materialize(const AbstractPtr& a, const c10::TypePtr& wanted) {
  switch (a->kind) {
    case Abstract::Kind::Plain:
      if (a->value) return a->value;
      if (a->number) {
        const bool as_tensor = !wanted || isTensorType(wanted);
        return as_tensor ? read(a->number->cell) : number(a, wanted);
      }
      if (a->first.isDevice()) return device();
      return graph_->insertConstant(a->first);
    case Abstract::Kind::Tensor:
      return read(a->cell);
    case Abstract::Kind::List: {
      // A list of lists is no constant that the IR can print.
      const bool nested = !a->items.empty() && a->items[0]->kind == Abstract::Kind::List;
      if (!nested && !holdsTensor(a) && !holdsVarying(a))
        return graph_->insertConstant(concrete(a, false));
      c10::TypePtr element = elementType(*a);
      if (const auto list = wanted ? wanted->cast<c10::ListType>() : nullptr)
        element = list->getElementType();
      std::vector<Value*> values;
      for (const AbstractPtr& item : a->items) values.push_back(materialize(item, element));
      return graph_->insertNode(graph_->createList(element, values))->output();
    }
    case Abstract::Kind::Tuple: {
      std::vector<Value*> values;
      for (const AbstractPtr& item : a->items) values.push_back(materialize(item));
      return graph_->insertNode(graph_->createTuple(values))->output();
    }
    default:
      throw Refused(unsupported("a dict or an object is given to an operator"));
  }
}

std::vector<AbstractPtr> Specializer::runOperator(const Node& node, const Arguments& arguments) {
  const c10::FunctionSchema* schema = node.maybeSchema();
  Call call{&node, node.kind().toQualString(), arguments, schema};
  if (!schema) {
    if (node.kind() == c10::prim::NumToTensor || node.kind() == c10::prim::device)
      return emit(call);
    refuseUnsupported(&node, "the operation " + call.name);
  }
  if (writes(*schema)) return runInPlace(call);
  return perform(call);
}

std::vector<AbstractPtr> Specializer::perform(const Call& given) {
  Call call = given;
  std::vector<AbstractPtr> outputs;
  // A shortcut for padded rows, taken when nothing is trained; the graph goes the long way.
  if (call.name == "aten::_nested_tensor_from_mask_left_aligned") return {plain(false)};
  // Texts are for messages.
  if (call.name == "aten::warn" || call.name == "prim::Print") return {};
  if (call.name == "aten::format" &&
      !std::all_of(call.arguments.begin(), call.arguments.end(), isSettled)) {
    return {plain(std::string())};
  }
  if (call.name == "prim::NumToTensor" || call.name == "aten::scalar_tensor") return emit(call);
  if (applyMode(call, outputs)) return outputs;
  if (call.name.starts_with("aten::_autocast_to_")) return {autocast(call)};
  if (isReadOfContents(call)) return readContents(call);
  readPlaces(call);
  const bool numbers =
      std::any_of(call.arguments.begin(), call.arguments.end(), isContentsOfTensor);
  if (numbers) return withNumbersAsTensors(call);
  const bool tensors = std::any_of(call.arguments.begin(), call.arguments.end(), holdsTensor);
  if (makesTensors(*call.schema)) return emit(call);
  return tensors ? readMetadata(call) : foldPlain(call);
}

/// `x.size() == y.size()`: sizes are linear in the batch size, so two that are equal for two batch
/// sizes are equal for all.
bool Specializer::areEqualForAll(const Call& call) const {
  if (call.name != "aten::eq" && call.name != "aten::ne") return false;
  for (const bool second : {false, true}) {
    Stack stack;
    for (const AbstractPtr& a : call.arguments) {
      if (a->number) return false;
      stack.push_back(concrete(a, second));
    }
    const bool same = stack.size() == 2 && stack[0] == stack[1];
    if (!same) return false;
  }
  return true;
}

std::vector<AbstractPtr> Specializer::foldPlain(const Call& call) {
  const bool varies = std::any_of(call.arguments.begin(), call.arguments.end(), holdsVarying);
  if (varies && areEqualForAll(call)) return {plain(call.name == "aten::eq")};
  if (varies) return emit(call);
  Stack stack;
  for (const AbstractPtr& a : call.arguments) stack.push_back(concrete(a, false));
  if (call.schema->is_vararg()) stack.push_back(static_cast<int64_t>(stack.size()));
  try {
    call.node->getOperation()(stack);
  } catch (const std::exception& failure) {
    refuse(call.node, call.name + " fails: " + failureText(failure));
  }
  std::vector<AbstractPtr> outputs;
  for (size_t i = 0; i < stack.size(); ++i) {
    outputs.push_back(fromIValues(stack[i], stack[i], call.node->outputs()[i]->type()));
  }
  return outputs;
}

/// Sizes, ranks, dtypes: constants, unless they follow the batch size.
std::vector<AbstractPtr> Specializer::readMetadata(const Call& call) {
  if (call.name == "aten::size" && call.arguments.size() == 1) {
    const TensorCell& cell = *call.arguments[0]->cell;
    std::vector<AbstractPtr> sizes;
    for (int64_t d = 0; d < cell.first.dim(); ++d) {
      sizes.push_back(cell.first.size(d) == cell.second.size(d)
                          ? plain(cell.first.size(d))
                          : emitOne(call.node, "aten::size", {call.arguments[0], plain(d)}));
    }
    return {container(Abstract::Kind::List, sizes, c10::ListType::ofInts())};
  }
  Stack first, second;
  for (const AbstractPtr& a : call.arguments) {
    first.push_back(concrete(a, false));
    second.push_back(concrete(a, true));
  }
  try {
    call.node->getOperation()(first);
    call.node->getOperation()(second);
  } catch (const std::exception& failure) {
    refuseUnsupported(call.node, call.name + " needs the values of a tensor");
  }
  const bool varies = std::any_of(call.arguments.begin(), call.arguments.end(), holdsVarying);
  std::vector<AbstractPtr> outputs;
  for (size_t i = 0; i < first.size(); ++i) {
    const bool same = !varies && first[i].type()->isSubtypeOf(*second[i].type()) &&
                      (first[i].isNone() || first[i] == second[i]);
    if (!same) return emit(call);
    outputs.push_back(fromIValues(first[i], second[i], call.node->outputs()[i]->type()));
  }
  return outputs;
}

std::vector<AbstractPtr> Specializer::emit(const Call& call) {
  return emit(call.node, call.name, call.arguments);
}

AbstractPtr Specializer::emitOne(const Node* at, const std::string& name,
                                 const Arguments& arguments) {
  return emit(at, name, arguments).at(0);
}

/// (x, cuda, cpu, cuda_dtype, cpu_dtype) or (x, cuda, cpu): as on the CPU, since no device is
/// known.
AbstractPtr Specializer::autocast(const Call& call) {
  const AbstractPtr& x = call.arguments.at(0);
  if (call.arguments.at(1)->first.toBool())
    refuseUnsupported(call.node, "'torch.autocast' of another device than the CPU");
  const at::ScalarType own = x->cell->first.scalar_type();
  const bool reduces = call.arguments.size() > 3;
  const bool eligible = reduces ? own == at::kFloat : own == at::kHalf || own == at::kBFloat16;
  if (!eligible || !call.arguments.at(2)->first.toBool()) return x;
  return cast(call.node, x, reduces ? call.arguments.at(4) : plain(int64_t(at::kFloat)));
}

AbstractPtr Specializer::cast(const Node* at, const AbstractPtr& tensor, const AbstractPtr& dtype) {
  return emitOne(at, "aten::to", {tensor, dtype, plain(false), plain(false), plain({})});
}

std::vector<AbstractPtr> Specializer::emit(const Node* at, const std::string& name,
                                           const Arguments& arguments) {
  std::vector<Value*> inputs;
  const bool same = at->kind().toQualString() == name && at->inputs().size() == arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    inputs.push_back(materialize(arguments[i], same ? at->inputs()[i]->type() : nullptr));
  }
  Node* made = same ? graph_->insertNode(graph_->create(at->kind(), inputs, at->outputs().size()))
                    : insertByPosition(*graph_, name, inputs);
  if (!made) refuseUnsupported(at, "the operation " + name + " with these arguments");
  for (size_t i = 0; same && i < at->outputs().size(); ++i) {
    // LibTorch's own shape propagation calls the list that chunk returns a tensor.
    const auto* schema = made->maybeSchema();
    const c10::TypePtr type =
        schema && i < schema->returns().size() ? schema->returns()[i].type() : nullptr;
    const bool list = type && type->isSubtypeOf(*c10::ListType::ofTensors());
    made->outputs()[i]->setType(list ? type : c10::unshapedType(at->outputs()[i]->type()));
  }
  stamp(made, at);
  Stack first, second;
  bool varies = false, data = false;
  for (const AbstractPtr& a : arguments) {
    first.push_back(concrete(a, false));
    second.push_back(concrete(a, true));
    data |= a->data || isContentsOfTensor(a);
    varies |= holdsVarying(a) || (a->cell && a->cell->varies);
  }
  varies |= name == "aten::_pack_padded_sequence";                     // how many rows a step has
  for (size_t i = arguments.size(); i < made->inputs().size(); ++i) {  // defaults
    first.push_back(*torch::jit::toIValue(made->inputs()[i]));
    second.push_back(first.back());
  }
  try {
    first = runOnExamples(made, std::move(first));
  } catch (const std::exception& failure) {
    refuse(at, name + " fails on these inputs: " + failureText(failure));
  }
  try {
    second = runOnExamples(made, std::move(second), true);
  } catch (const std::exception& failure) {
    throw BatchSizeFixed{batchFixingPlace(made), failureText(failure)};
  }
  knowBoth(first, second);
  std::vector<AbstractPtr> outputs;
  for (size_t i = 0; i < made->outputs().size(); ++i) {
    outputs.push_back(wrapOutput(made, i, first.at(i), second.at(i), varies));
    outputs.back()->data = data && outputs.back()->kind == Abstract::Kind::Plain;
  }
  if (name == "prim::NumToTensor") outputs[0]->number = arguments[0];
  linkViews(arguments, outputs);
  if (no_grad_ > 0 && name != "aten::detach") {
    for (AbstractPtr& output : outputs) {
      if (output->kind == Abstract::Kind::Tensor) output = emitOne(at, "aten::detach", {output});
    }
  }
  return outputs;
}

AbstractPtr Specializer::wrapOutput(Node* made, size_t index, const c10::IValue& first,
                                    const c10::IValue& second, bool varies) {
  Value* value = made->outputs()[index];
  if (first.isTensor() && first.toTensor().defined()) {
    auto cell = newCell();
    cell->value = value;
    cell->first = first.toTensor();
    cell->second = second.toTensor();
    if (cell->first.dim() != cell->second.dim()) {
      throw BatchSizeFixed{place(made), "the number of dims depends on the batch size"};
    }
    cell->varies = varies;
    value->setType(typeOf(cell->first, cell->second));
    return tensorOf(cell);
  }
  if (first.isList()) {
    const auto a = first.toListRef(), b = second.toListRef();
    if (a.size() != b.size()) {
      throw BatchSizeFixed{place(made), "the length of a list depends on the batch size"};
    }
    const c10::TypePtr element = value->type()->expect<c10::ListType>()->getElementType();
    Node* unpack = graph_->insertNode(graph_->createListUnpack(value, a.size()));
    stamp(unpack, made);
    std::vector<AbstractPtr> items;
    for (size_t i = 0; i < a.size(); ++i) {
      unpack->outputs()[i]->setType(element);
      items.push_back(wrapOutput(unpack, i, a[i], b[i], varies));
    }
    return container(Abstract::Kind::List, items, value->type());
  }
  auto made_value = plain(first.isTensor() ? c10::IValue() : first);
  made_value->second = second.isTensor() ? c10::IValue() : second;
  made_value->varies = true;
  made_value->value = value;
  return made_value;
}

}  // namespace chorus
