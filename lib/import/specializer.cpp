#include "lib/import/specializer.h"

#include <torch/csrc/jit/api/function_impl.h>

#include "lib/import/example_run.h"
#include "lib/support/hash.h"

namespace chorus {

using torch::jit::Block;

bool holdsTensor(const AbstractPtr& a) {
  return a->kind == Abstract::Kind::Tensor ||
         std::any_of(a->items.begin(), a->items.end(), holdsTensor);
}

bool holdsVarying(const AbstractPtr& a) {
  return a->varies || std::any_of(a->items.begin(), a->items.end(), holdsVarying);
}

Specializer::Specializer(const SpecializeRequest& request, const torch::jit::Module* self)
    : request_(request), self_(self), slots_(request.slots) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    slot_by_path_[slots_[i].name] = i;
    for (const std::string& alias : slots_[i].aliases) slot_by_path_[alias] = i;
  }
}

Specialized Specializer::run(const Graph& code) {
  Arguments arguments;
  if (self_) {
    auto root = std::make_shared<Abstract>();
    root->kind = Abstract::Kind::Object;
    root->object = self_->_ivalue();
    arguments.push_back(root);
  }
  for (size_t i = 0; i < request_.inputs.size(); ++i) {
    auto cell = newCell();
    cell->first = exampleOf(request_.inputs[i], request_.first_n);
    cell->second = exampleOf(request_.inputs[i], request_.second_n);
    cell->value = graph_->addInput(c10::str("x", i))->setType(typeOf(cell->first, cell->second));
    arguments.push_back(tensorOf(cell));
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    auto cell = newCell();
    cell->first = cell->second = exampleOf(slots_[i]);
    cell->value = graph_->addInput()->setType(typeOf(cell->first, cell->second));
    cell->slot = i;
    slot_cells_.push_back(cell);
    if (!self_) arguments.push_back(tensorOf(cell));
  }
  while (arguments.size() < code.inputs().size()) arguments.push_back(defaultOf(arguments.size()));
  const std::vector<AbstractPtr> results = runGraph(code, arguments);
  return finish(results.at(0));
}

/// What the forward method takes where nothing is given.
AbstractPtr Specializer::defaultOf(size_t argument) {
  const auto& arguments = self_->get_method("forward").function().getSchema().arguments();
  const auto& value = arguments.at(argument).default_value();
  return value ? fromIValues(*value, *value, arguments[argument].type()) : plain(c10::IValue());
}

std::vector<AbstractPtr> Specializer::runGraph(const Graph& graph, const Arguments& arguments) {
  Frame frame;
  for (size_t i = 0; i < graph.inputs().size(); ++i) frame[graph.inputs()[i]] = arguments.at(i);
  runBlock(*graph.block(), frame);
  std::vector<AbstractPtr> results;
  for (const Value* output : graph.outputs()) results.push_back(frame.at(output));
  return results;
}

void Specializer::runBlock(const Block& block, Frame& frame) {
  for (const Node* node : block.nodes()) runNode(*node, frame);
}

void Specializer::runNode(const Node& node, Frame& frame) {
  switch (node.kind()) {
    case c10::prim::If:
      return runIf(node, frame);
    case c10::prim::Loop:
      return runLoop(node, frame);
    default:
      break;
  }
  Arguments arguments;
  for (const Value* input : node.inputs()) {
    arguments.push_back(frame.at(input));
    if (!arguments.back()->clash.empty()) refuseUnsupported(&node, arguments.back()->clash);
  }
  std::vector<AbstractPtr> outputs;
  switch (node.kind()) {
    case c10::prim::Constant:
      outputs = {constant(node)};
      break;
    case c10::prim::GetAttr:
      outputs = {attribute(node, arguments[0])};
      break;
    case c10::prim::SetAttr:
      setAttribute(node, arguments[0], arguments[1]);
      break;
    case c10::prim::CallMethod:
      outputs = callMethod(node, arguments);
      break;
    case c10::prim::CallFunction:
      outputs = callFunction(node, arguments);
      break;
    case c10::prim::RaiseException:
      runRaise(node, arguments);
      break;
    default:
      if (runGradMode(node, arguments)) {
        outputs.resize(node.outputs().size(), plain(c10::IValue()));
      } else if (!runContainer(node, arguments, outputs)) {
        outputs = runOperator(node, arguments);
      }
  }
  for (size_t i = 0; i < node.outputs().size(); ++i) {
    // Objects that stand for a with-block have no outputs of use.
    frame[node.outputs()[i]] = i < outputs.size() ? outputs[i] : plain(c10::IValue());
  }
}

AbstractPtr Specializer::constant(const Node& node) {
  if (node.output()->type()->cast<c10::FunctionType>()) return plain(c10::IValue());
  const auto value = torch::jit::toIValue(node.output());
  if (!value) refuseUnsupported(&node, "a constant of type " + node.output()->type()->str());
  if (value->isTensor()) return constantTensor(value->toTensor());
  if (value->isList() || value->isTuple() || value->isGenericDict()) {
    return fromIValues(*value, *value, node.output()->type());
  }
  return plain(*value);
}

AbstractPtr Specializer::constantTensor(const at::Tensor& tensor) {
  // A list attribute holds the module's own parameters (`_flat_weights` of a recurrent network).
  for (size_t i = 0; i < slots_.size(); ++i) {
    const TensorSlot& slot = slots_[i];
    if (slot.role != Role::Constant && slot.value.defined() && tensor.numel() > 0 &&
        tensor.is_same_size(slot.value) && tensor.data_ptr() == slot.value.data_ptr() &&
        tensor.strides() == slot.value.strides()) {
      return tensorOf(slot_cells_[i]);
    }
  }
  // One slot per contents: traces repeat the same constant for every layer.
  for (size_t i = 0; i < slots_.size(); ++i) {
    const TensorSlot& slot = slots_[i];
    if (slot.role == Role::Constant && slot.value.sizes() == tensor.sizes() &&
        slot.value.scalar_type() == tensor.scalar_type() &&
        hashTensor(slot.value) == hashTensor(tensor)) {
      return tensorOf(slot_cells_[i]);
    }
  }
  size_t number = 0;
  for (const TensorSlot& slot : slots_) number += slot.role == Role::Constant;
  TensorSlot slot;
  slot.name = "constant." + std::to_string(number);
  slot.role = Role::Constant;
  slot.value = tensor.detach();
  auto cell = newCell();
  cell->slot = slots_.size();
  cell->first = cell->second = exampleOf(slot);
  cell->value = graph_->addInput()->setType(typeOf(cell->first, cell->second));
  slots_.push_back(slot);
  slot_cells_.push_back(cell);
  return tensorOf(cell);
}

AbstractPtr Specializer::attribute(const Node& node, const AbstractPtr& owner) {
  const std::string& name = node.s(c10::attr::name);
  if (owner->kind != Abstract::Kind::Object || !owner->object) return plain(c10::IValue());
  const std::string path = owner->path.empty() ? name : owner->path + "." + name;
  const c10::IValue value = owner->object->getAttr(name);
  if (value.isTensor() && value.toTensor().defined()) {
    const size_t slot = slot_by_path_.at(path);
    const auto rebound = rebound_.find(slot);
    return tensorOf(rebound == rebound_.end() ? slot_cells_.at(slot) : rebound->second);
  }
  if (value.isObject()) {
    auto made = std::make_shared<Abstract>();
    made->kind = Abstract::Kind::Object;
    made->object = value.toObject();
    made->path = path;
    return made;
  }
  if (name == "training" && value.isBool()) return plain(request_.mode.flag(value.toBool()));
  if (value.isList() || value.isTuple() || value.isGenericDict()) {
    return fromIValues(value, value, node.output()->type());
  }
  return plain(value.isTensor() ? c10::IValue() : value);
}

void Specializer::setAttribute(const Node& node, const AbstractPtr& owner,
                               const AbstractPtr& value) {
  const std::string& name = node.s(c10::attr::name);
  const std::string path = owner->path.empty() ? name : owner->path + "." + name;
  const auto slot = slot_by_path_.find(path);
  if (slot == slot_by_path_.end() || value->kind != Abstract::Kind::Tensor) {
    refuseUnsupported(&node, "the forward method assigns the attribute '" + path + "'");
  }
  if (undecided_ > 0) {
    refuseUnsupported(&node,
                      "a branch or loop that depends on data assigns the attribute '" + path + "'");
  }
  const TensorSlot& old = slots_.at(slot->second);
  const at::Tensor& first = value->cell->first;
  if (old.role != Role::Buffer || !old.aliases.empty()) {
    refuseUnsupported(
        &node, "the forward method assigns '" + path + "', which is a parameter or has two names");
  }
  if (first.sizes() != old.value.sizes() || first.scalar_type() != old.value.scalar_type() ||
      value->cell->second.sizes() != first.sizes()) {
    refuseUnsupported(
        &node, "the forward method assigns a tensor of another shape or dtype to '" + path + "'");
  }
  rebound_[slot->second] = value->cell;
}

std::vector<AbstractPtr> Specializer::callMethod(const Node& node, const Arguments& arguments) {
  const AbstractPtr& owner = arguments.at(0);
  const std::string& name = node.s(c10::attr::name);
  if (!owner->object) return {plain(c10::IValue())};  // __init__ of a with-block's object
  torch::jit::Function& method = owner->object->type()->getMethod(name);
  call_sites_.push_back(node.sourceRange());
  module_path_.push_back(owner->path);
  auto results = runGraph(*torch::jit::toGraphFunction(method).graph(), arguments);
  module_path_.pop_back();
  call_sites_.pop_back();
  return results;
}

std::vector<AbstractPtr> Specializer::callFunction(const Node& node, const Arguments& arguments) {
  const auto type = node.inputs().at(0)->type()->expect<c10::FunctionType>();
  call_sites_.push_back(node.sourceRange());
  auto results = runGraph(*torch::jit::toGraphFunction(*type->function()).graph(),
                          Arguments(arguments.begin() + 1, arguments.end()));
  call_sites_.pop_back();
  return results;
}

OutputTree Specializer::flattenOutput(const AbstractPtr& result, std::vector<Value*>& into) {
  OutputTree tree;
  switch (result->kind) {
    case Abstract::Kind::Tensor:
      into.push_back(read(result->cell));
      return tree;
    case Abstract::Kind::List:
      tree.kind = OutputTree::Kind::List;
      break;
    case Abstract::Kind::Tuple:
      tree.kind = OutputTree::Kind::Tuple;
      break;
    case Abstract::Kind::Dict:
      tree.kind = OutputTree::Kind::Dict;
      break;
    default:
      if (isNone(result)) {
        tree.kind = OutputTree::Kind::None;
        return tree;
      }
      throw Refused(unsupported(
          "the model returns a value that is not a tensor (" + result->first.tagKind() + ")",
          Place{request_.file, "", "", ""}));
  }
  for (size_t i = 0; i < result->items.size(); ++i) {
    if (tree.kind == OutputTree::Kind::Dict) tree.keys.push_back(result->keys[i].toStringRef());
    tree.children.push_back(flattenOutput(result->items[i], into));
  }
  return tree;
}

Specialized Specializer::finish(const AbstractPtr& result) {
  Specialized made;
  std::vector<Value*> outputs;
  const bool flat = !self_;  // the graph of a fused file returns one list: outputs, then updates
  made.output = flattenOutput(result, outputs);
  for (Value* output : outputs) graph_->registerOutput(output);
  CanonicalGraph& canonical = made.canonical;
  canonical.n_inputs = request_.inputs.size();
  canonical.n_outputs = outputs.size();
  for (size_t i = 0; i < slot_cells_.size() && !flat; ++i) {
    const auto rebound = rebound_.find(i);
    Value* now = read(rebound == rebound_.end() ? slot_cells_[i] : rebound->second);
    if (now == graph_->inputs()[canonical.n_inputs + i]) continue;
    if (slots_[i].role != Role::Buffer) {
      throw Refused(unsupported("the forward method writes the parameter '" + slots_[i].name + "'",
                                Place{request_.file, "", "", ""}));
    }
    canonical.updates.push_back(i);
    graph_->registerOutput(now);
  }
  canonical.graph = graph_;
  made.slots = slots_;
  return made;
}

Specialized specialize(const Graph& code, const torch::jit::Module* self,
                       const SpecializeRequest& request) {
  return Specializer(request, self).run(code);
}

}  // namespace chorus
