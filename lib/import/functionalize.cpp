// Functionalisation: in-place ops become values, and writes through views become writes of the
// base.
//
//   y = relu_(x)    ==>  x' = relu(x); every later use of x or y reads x'
//
// A write that autograd does not see (under no_grad, through detach) changes the contents and
// leaves the history as it was:
//
//   x.detach().clamp_(0)    ==>  x' = clamp(x, 0).detach() + (x - x.detach())
#include <torch/csrc/jit/runtime/operator.h>

#include "lib/import/specializer.h"

namespace chorus {
namespace {

/// "aten::add_" -> "aten::add", "aten::__ior__" -> "aten::__or__"
std::string functionalName(const std::string& in_place) {
  const size_t dunder = in_place.find("::__i");
  if (dunder != std::string::npos)
    return in_place.substr(0, dunder + 4) + in_place.substr(dunder + 5);
  return in_place.substr(0, in_place.size() - 1);
}

bool isInPlaceName(const std::string& name) {
  return name.back() == '_' &&
         (name.find("::__") == std::string::npos || name.find("::__i") != std::string::npos);
}

bool detaches(const Node* node) {
  return node->kind() == c10::aten::detach ||
         node->kind().toQualString() == std::string("prim::data");
}

bool isDetach(const TensorCell& cell) { return cell.base && detaches(cell.view); }

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

/// A parameter that wants a gradient reaches `value`.
bool Specializer::tracksGradient(const Value* value) const {
  std::vector<const Value*> open{value};
  std::set<const Value*> seen;
  while (!open.empty()) {
    const Value* v = open.back();
    open.pop_back();
    if (!seen.insert(v).second) continue;
    const Node* node = v->node();
    if (!node->blocks().empty() || node->owningBlock() != graph_->block()) return true;
    if (node->kind() == c10::prim::Param) {
      if (v->offset() < request_.inputs.size()) continue;
      const TensorSlot& slot = slots_.at(v->offset() - request_.inputs.size());
      if (slot.role == Role::Parameter && slot.requires_grad) return true;
    } else if (!detaches(node)) {
      open.insert(open.end(), node->inputs().begin(), node->inputs().end());
    }
  }
  return false;
}

/// `contents` with the gradient of what the cell held: autograd does not know that it was written.
AbstractPtr Specializer::withHistory(const CellPtr& cell, const AbstractPtr& contents,
                                     const Node* at) {
  if (!at::isFloatingType(cell->first.scalar_type()) || !tracksGradient(read(cell)))
    return contents;
  const AbstractPtr old = tensorOf(cell), one = plain(int64_t{1}), none = plain({});
  const AbstractPtr zero = emitOne(at, "aten::sub", {old, emitOne(at, "aten::detach", {old}), one});
  // Infinity less itself is no number.
  const AbstractPtr safe = emitOne(at, "aten::nan_to_num", {zero, none, none, none});
  return emitOne(at, "aten::add", {emitOne(at, "aten::detach", {contents}), safe, one});
}

void Specializer::requireWritable(const TensorCell& cell, const Node* at) const {
  const TensorCell* root = &cell;
  while (root->base) root = root->base.get();
  if (!root->slot || slots_.at(*root->slot).role == Role::Buffer) return;
  const TensorSlot& slot = slots_[*root->slot];
  refuseUnsupported(at, slot.role == Role::Parameter
                            ? "the forward method writes the parameter '" + slot.name + "'"
                            : "the forward method writes a constant of its code");
}

void Specializer::write(const CellPtr& cell, const AbstractPtr& contents, const Node* at) {
  requireWritable(*cell, at);
  const int no_grad = std::exchange(no_grad_, 0);  // the contents are detached already
  const bool unseen = no_grad > 0 && !isDetach(*cell);
  store(cell, unseen ? withHistory(cell, contents, at) : contents, at);
  no_grad_ = no_grad;
}

void Specializer::store(const CellPtr& cell, const AbstractPtr& contents, const Node* at) {
  if (isDetach(*cell)) return store(cell->base, withHistory(cell->base, contents, at), at);
  Value* value = read(contents->cell);
  read(cell);
  if (cell->met) {
    refuseUnsupported(at, "an in-place write to a tensor that has two names, as a branch decides");
  }
  // Before the cell moves: what the base becomes is told by the other parts as they are.
  const AbstractPtr whole = cell->base ? writeThrough(cell, contents, at) : nullptr;
  cell->value = value;
  cell->version++;
  forgetNumbers(cell, contents->cell);
  if (!whole) return;
  store(cell->base, whole, at);
  cell->base_version = cell->base->version;
  if (!cell->parts) return;
  for (const auto& part : *cell->parts) part.lock()->base_version = cell->base->version;
}

void Specializer::forget(const CellPtr& cell) {
  cell->first = cell->first.to(at::kMeta);
  cell->second = cell->second.to(at::kMeta);
}

/// `cell` was written: what was known of its views is not so any more.
void Specializer::forgetViews(const CellPtr& cell) {
  for (const CellPtr& view : views_) {
    const TensorCell* root = view.get();
    while (root->base && root != cell.get()) root = root->base.get();
    if (view != cell && root == cell.get() && view->known()) forget(view);
  }
}

/// Contents that are known: of the cell what `contents` knows, of its views nothing any more.
void Specializer::forgetNumbers(const CellPtr& cell, const CellPtr& contents) {
  forgetViews(cell);
  if (!cell->known()) return;
  if (!contents->known() || contents->varies) return forget(cell);
  cell->first = contents->first;
  cell->second = contents->second;
}

/// `source` in the dtype and sizes of what is written.
AbstractPtr Specializer::copied(const Call& call, const AbstractPtr& given) {
  const AbstractPtr& self = call.arguments.at(0);
  AbstractPtr source = given;
  if (source->cell->first.scalar_type() != self->cell->first.scalar_type()) {
    const auto dtype = plain(static_cast<int64_t>(self->cell->first.scalar_type()));
    source = cast(call.node, source, dtype);
  }
  const bool same = source->cell->first.sizes() == self->cell->first.sizes();
  return same ? emitOne(call.node, "aten::clone", {source, plain({})})
              : emitOne(call.node, "aten::expand_as", {source, self});
}

/// uniform_, normal_: the draw of a tensor like the one that is written. Null: another op.
AbstractPtr Specializer::drawn(const Call& call) {
  const bool uniform = call.name == "aten::uniform_";
  if (!uniform && call.name != "aten::normal_") return nullptr;
  const AbstractPtr none = plain({}), one = plain(int64_t{1});
  const AbstractPtr &a = call.arguments.at(1), &b = call.arguments.at(2);
  if (!a->first.isDouble() || !b->first.isDouble() || a->varies || b->varies) return nullptr;
  const double scale = uniform ? b->first.toDouble() - a->first.toDouble() : b->first.toDouble();
  const AbstractPtr draw = emitOne(call.node, uniform ? "aten::rand_like" : "aten::randn_like",
                                   {call.arguments[0], none, none, none, none, none});
  return emitOne(call.node, "aten::add",
                 {emitOne(call.node, "aten::mul", {draw, plain(scale)}), a, one});
}

/// The new contents of the tensor that an in-place op writes.
AbstractPtr Specializer::inPlaceResult(const Call& call) {
  const AbstractPtr& self = call.arguments.at(0);
  const std::string name = functionalName(call.name);
  const bool fill = name == "aten::fill";
  if (name == "aten::copy" || (fill && call.arguments.at(1)->kind == Abstract::Kind::Tensor))
    return copied(call, call.arguments.at(1));
  if (fill) {
    const AbstractPtr none = plain({});
    return emitOne(call.node, "aten::full_like",
                   {self, call.arguments.at(1), none, none, none, none, none});
  }
  if (name == "aten::fill_diagonal" && self->cell->first.dim() == 2 &&
      !call.arguments.at(2)->first.toBool()) {
    const AbstractPtr part =
        emitOne(call.node, "aten::diagonal",
                {self, plain(int64_t{0}), plain(int64_t{0}), plain(int64_t{1})});
    const Call fill_part{call.node, "aten::fill_", {part, call.arguments.at(1)}, call.schema};
    return emitOne(call.node, "aten::diagonal_scatter", {self, inPlaceResult(fill_part)});
  }
  if (name == "aten::zero") return emitOne(call.node, "aten::zeros_like", {self});
  if (const AbstractPtr draw = drawn(call)) return draw;
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
    const auto dtype = plain(static_cast<int64_t>(self->cell->first.scalar_type()));
    result = cast(call.node, result, dtype);
  }
  if (result->cell->first.sizes() != self->cell->first.sizes()) {
    refuse(call.node, call.name + " gives a tensor of another shape than the one it writes");
  }
  return result;
}

/// `x.unsqueeze_(0)`: the name x becomes a view of what it was. Other views keep their base.
std::vector<AbstractPtr> Specializer::reshapeInPlace(const Call& call) {
  const CellPtr cell = call.arguments.at(0)->cell;
  if (cell->slot || undecided_ > 0)
    refuseUnsupported(call.node, "the in-place operation " + call.name);
  const auto old = std::make_shared<TensorCell>(*cell);
  for (const CellPtr& view : views_) {
    if (view->base == cell) view->base = old;
  }
  if (old->base) views_.push_back(old);
  for (size_t i = 0; old->parts && i < old->parts->size(); ++i) {
    if ((*old->parts)[i].lock() == cell) (*old->parts)[i] = old;
  }
  Arguments arguments = call.arguments;
  arguments[0] = tensorOf(old);
  *cell = *emitOne(call.node, functionalName(call.name), arguments)->cell;
  views_.push_back(cell);
  return {call.arguments[0]};
}

/// `torch.add(a, b, out=c)`
std::vector<AbstractPtr> Specializer::writeOut(const Call& call, size_t out) {
  const AbstractPtr target = call.arguments.at(out);
  // A trace forgets no_grad, but autograd refuses 'out': so the code had no history here. And what
  // it writes to a buffer in train mode (the power iteration of spectral_norm) it reads in eval.
  const ModeReading& mode = request_.mode;
  if (mode.baked && !mode.training && !mode.as_traced && target->cell->slot) return {target};
  Arguments arguments = call.arguments;
  arguments.erase(arguments.begin() + static_cast<int64_t>(out));
  AbstractPtr result = emitOne(call.node, call.name, arguments);
  if (mode.baked && at::isFloatingType(result->cell->first.scalar_type()))
    result = emitOne(call.node, "aten::detach", {result});
  if (result->cell->first.sizes() != target->cell->first.sizes()) {
    refuseUnsupported(call.node, call.name + " with an 'out' of another shape");
  }
  const Call copy{call.node, call.name, {target, result}, call.schema};
  write(target->cell, copied(copy, result), call.node);
  target->number = nullptr;
  return {target};
}

std::vector<AbstractPtr> Specializer::runInPlace(const Call& call) {
  static const std::set<std::string> reshaping = {"aten::squeeze_",  "aten::unsqueeze_",
                                                  "aten::t_",        "aten::transpose_",
                                                  "aten::swapaxes_", "aten::swapdims_"};
  std::vector<size_t> written;
  const auto& schema = call.schema->arguments();
  for (size_t i = 0; i < schema.size() && i < call.arguments.size(); ++i) {
    if (schema[i].alias_info() && schema[i].alias_info()->isWrite()) written.push_back(i);
  }
  if (written.size() == 1 && schema[written[0]].name() == "out" &&
      call.arguments.at(written[0])->kind == Abstract::Kind::Tensor) {
    return writeOut(call, written[0]);
  }
  if (written != std::vector<size_t>{0} || call.arguments.at(0)->kind != Abstract::Kind::Tensor ||
      !isInPlaceName(call.name)) {
    refuseUnsupported(call.node, "the operation " + call.name + ", which writes its arguments");
  }
  if (isCounterOfTrace(call)) return {call.arguments[0]};
  if (call.name == "aten::requires_grad_") return {call.arguments[0]};
  if (call.name == "aten::resize_" || call.name == "aten::set_" || call.name == "aten::resize_as_")
    refuseUnsupported(call.node, "the in-place operation " + call.name);
  if (reshaping.count(call.name)) return reshapeInPlace(call);
  const AbstractPtr result = inPlaceResult(call);
  write(call.arguments[0]->cell, result, call.node);
  call.arguments[0]->number = nullptr;
  return {call.arguments[0]};
}

}  // namespace chorus
