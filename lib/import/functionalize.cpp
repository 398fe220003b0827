// Functionalisation: in-place ops become values, and writes through views become writes of the
// base.
//
//   y = relu_(x)         ==>  x' = relu(x); every later use of x or y reads x'
//   x[:, 0].zero_()      ==>  v = select(x, 1, 0); x' = select_scatter(x, zeros_like(v), 1, 0)
//
// What aliases what is not derived but seen: outputs of the example run that share storage with an
// input are views of it.
#include <torch/csrc/jit/runtime/operator.h>

#include "lib/import/specializer.h"

namespace chorus {
namespace {

bool sharesStorage(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.has_storage() && b.has_storage() &&
         a.storage().is_alias_of(b.storage());
}

void forEachCell(const AbstractPtr& a,
                 const std::function<void(const std::shared_ptr<TensorCell>&)>& f) {
  if (a->kind == Abstract::Kind::Tensor) f(a->cell);
  for (const AbstractPtr& item : a->items) forEachCell(item, f);
}

std::string functionalName(const std::string& in_place) {
  return in_place.substr(0, in_place.size() - 1);
}

}  // namespace

/// Current contents: a view is made again if its base was written since.
Value* Specializer::read(const CellPtr& cell) {
  if (!cell->base) return cell->value;
  read(cell->base);
  if (cell->base_version == cell->base->version) return cell->value;
  cell->value = replay(cell);
  cell->base_version = cell->base->version;
  cell->version++;
  return cell->value;
}

/// The view op again, on the base as it is now.
Value* Specializer::replay(const CellPtr& cell) {
  Node* again = graph_->createClone(cell->view, [&](Value* v) {
    return v->type()->isSubtypeOf(*c10::TensorType::get()) && v == cell->view->inputs().at(0)
               ? cell->base->value
               : v;
  });
  graph_->insertNode(again);
  return again->outputs().at(cell->view_output);
}

void Specializer::linkViews(const Arguments& arguments, const std::vector<AbstractPtr>& outputs) {
  if (arguments.empty() || arguments[0]->kind != Abstract::Kind::Tensor) return;
  const CellPtr base = arguments[0]->cell;
  if (base->known()) return;
  for (size_t i = 0; i < outputs.size(); ++i) {
    forEachCell(outputs[i], [&](const CellPtr& cell) {
      if (!sharesStorage(cell->first, base->first)) return;
      cell->base = base;
      cell->base_version = base->version;
      cell->view = cell->value->node();
      cell->view_output = cell->value->offset();
    });
  }
}

/// The base's new contents, given the new contents of a view of it. Null where the view has no
/// known inverse.
Value* Specializer::writeThrough(const CellPtr& view, Value* contents, const Node* at) {
  const CellPtr& base = view->base;
  Node* made = view->view;
  const std::string name = made->kind().toQualString();
  std::vector<torch::jit::NamedValue> rest(made->inputs().begin() + 1, made->inputs().end());
  const auto insert = [&](const std::string& op, std::vector<torch::jit::NamedValue> arguments) {
    Value* value =
        graph_->insert(c10::Symbol::fromQualString(op), arguments, {}, at->sourceRange());
    stamp(value->node(), at);
    return value;
  };
  static const std::map<std::string, std::string> scatters = {
      {"aten::select", "aten::select_scatter"},
      {"aten::slice", "aten::slice_scatter"},
      {"aten::diagonal", "aten::diagonal_scatter"}};
  static const std::set<std::string> swaps = {"aten::transpose", "aten::t", "aten::swapaxes",
                                              "aten::mT"};
  static const std::set<std::string> whole = {
      "aten::view",      "aten::reshape",    "aten::flatten", "aten::unflatten", "aten::squeeze",
      "aten::unsqueeze", "aten::contiguous", "aten::detach",  "aten::alias",     "aten::to",
      "aten::view_as",   "aten::reshape_as", "aten::dropout", "aten::expand_as", "aten::clamp"};
  Value* value = nullptr;
  if (const auto scatter = scatters.find(name); scatter != scatters.end()) {
    std::vector<torch::jit::NamedValue> arguments = {base->value, contents};
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    value = insert(scatter->second, arguments);
  } else if (name == "aten::narrow") {
    const Value* length = made->inputs().at(3);
    Value* end = insert("aten::add", {made->inputs().at(2), const_cast<Value*>(length)});
    value = insert("aten::slice_scatter",
                   {base->value, contents, made->inputs().at(1), made->inputs().at(2), end});
  } else if (swaps.count(name)) {
    std::vector<torch::jit::NamedValue> arguments = {contents};
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    value = insert(name, arguments);
  } else if (name == "aten::permute") {
    const auto order = torch::jit::toIValue(made->inputs().at(1))->toIntVector();
    std::vector<int64_t> inverse(order.size());
    const auto rank = static_cast<int64_t>(order.size());
    for (int64_t i = 0; i < rank; ++i) inverse[(order[i] + rank) % rank] = i;
    value = insert("aten::permute", {contents, graph_->insertConstant(inverse)});
  } else if (whole.count(name) && view->first.numel() == base->first.numel()) {
    value = view->first.sizes() == base->first.sizes()
                ? contents
                : insert("aten::reshape_as", {contents, base->value});
  }
  if (value) value->setType(base->value->type());
  return value;
}

void Specializer::write(const CellPtr& cell, const AbstractPtr& contents, const Node* at) {
  Value* value = read(contents->cell);
  read(cell);
  cell->value = value;
  cell->version++;
  if (!cell->base) return;
  Value* through = writeThrough(cell, value, at);
  if (!through) {
    refuseUnsupported(
        at, "an in-place write through " + std::string(cell->view->kind().toQualString()));
  }
  auto whole = std::make_shared<TensorCell>(*cell->base);
  whole->base = nullptr;
  whole->value = through;
  write(cell->base, tensorOf(whole), at);
  cell->base_version = cell->base->version;
}

/// The new contents of the tensor that an in-place op writes.
AbstractPtr Specializer::inPlaceResult(const Call& call) {
  const AbstractPtr& self = call.arguments.at(0);
  const std::string name = functionalName(call.name);
  const auto dtype = plain(static_cast<int64_t>(self->cell->first.scalar_type()));
  if (name == "aten::copy" ||
      (name == "aten::fill" && call.arguments.at(1)->kind == Abstract::Kind::Tensor)) {
    AbstractPtr source = call.arguments.at(1);
    if (source->cell->first.scalar_type() != self->cell->first.scalar_type()) {
      source =
          emitOne(call.node, "aten::to", {source, dtype, plain(false), plain(false), plain({})});
    }
    const bool same = source->cell->first.sizes() == self->cell->first.sizes();
    return same ? emitOne(call.node, "aten::clone", {source, plain({})})
                : emitOne(call.node, "aten::expand_as", {source, self});
  }
  if (name == "aten::fill")
    return emitOne(call.node, "aten::full_like", {self, call.arguments.at(1)});
  if (name == "aten::zero") return emitOne(call.node, "aten::zeros_like", {self});
  if (torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(name)).empty()) {
    refuseUnsupported(call.node, "the in-place operation " + call.name);
  }
  // Schema of the functional overload, for `applyMode`, which finds arguments by name; the
  // arguments are the same.
  Call functional{call.node, name, call.arguments, call.schema};
  plainCount(functional);
  std::vector<AbstractPtr> outputs;
  AbstractPtr result = applyMode(functional, outputs)
                           ? outputs.at(0)
                           : emitOne(call.node, name, functional.arguments);
  // An in-place op keeps the dtype, whatever promotion says.
  if (result->cell->first.scalar_type() != self->cell->first.scalar_type()) {
    result = emitOne(call.node, "aten::to", {result, dtype, plain(false), plain(false), plain({})});
  }
  return result;
}

std::vector<AbstractPtr> Specializer::runInPlace(const Call& call) {
  if (call.arguments.at(0)->kind != Abstract::Kind::Tensor || call.name.back() != '_') {
    refuseUnsupported(call.node, "the operation " + call.name + ", which writes its argument");
  }
  if (isCounterOfTrace(call)) return {call.arguments[0]};
  static const std::set<std::string> reshaping = {
      "aten::squeeze_", "aten::unsqueeze_", "aten::t_",       "aten::transpose_",
      "aten::resize_",  "aten::set_",       "aten::swapaxes_"};
  if (reshaping.count(call.name))
    refuseUnsupported(call.node, "the in-place operation " + call.name);
  if (call.name == "aten::requires_grad_") return {call.arguments[0]};
  const AbstractPtr result = inPlaceResult(call);
  write(call.arguments[0]->cell, result, call.node);
  return {call.arguments[0]};
}

}  // namespace chorus
