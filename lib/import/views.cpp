// Views: what aliases what is not derived but seen. Outputs of the example run that share storage
// with an argument are views of it.
//
//   x[:, 0].zero_()         ==>  v = select(x, 1, 0); x' = select_scatter(x, zeros_like(v), 1, 0)
//   a, b = x.chunk(2); a += 1  ==>  x' = cat([a + 1, b])
//   x.movedim(0, 1).zero_()   ==>  x' = x with zeros at the places that movedim of 0..numel-1 has
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

/// Results of these are disjoint parts of one tensor.
bool splits(const Node* op) {
  static const std::set<std::string> names = {"aten::chunk",
                                              "aten::split",
                                              "aten::split_with_sizes",
                                              "aten::tensor_split",
                                              "aten::unsafe_chunk",
                                              "aten::unbind",
                                              "aten::unsafe_split",
                                              "aten::unsafe_split_with_sizes",
                                              "aten::hsplit",
                                              "aten::vsplit",
                                              "aten::dsplit"};
  return names.count(op->kind().toQualString()) > 0;
}

/// Elements of the view are those of the base in the same (row-major) order.
bool keepsOrder(const TensorCell& view) {
  static const std::set<std::string> names = {
      "aten::view",    "aten::reshape",      "aten::flatten",    "aten::unflatten", "aten::squeeze",
      "aten::view_as", "aten::_unsafe_view", "aten::reshape_as", "aten::unsqueeze", "aten::ravel"};
  const at::Tensor &v = view.first, &b = view.base->first;
  if (v.numel() != b.numel()) return false;
  const bool same = v.sizes() == b.sizes() && v.strides() == b.strides();
  const bool contiguous = v.is_contiguous() && b.is_contiguous();
  return same || contiguous || names.count(view.view->kind().toQualString());
}

std::shared_ptr<TensorCell> baseOf(const std::vector<AbstractPtr>& arguments,
                                   const TensorCell& output) {
  std::shared_ptr<TensorCell> found;
  for (const AbstractPtr& argument : arguments) {
    forEachCell(argument, [&](const std::shared_ptr<TensorCell>& cell) {
      if (!found && sharesStorage(cell->first, output.first)) found = cell;
    });
  }
  return found;
}

}  // namespace

void Specializer::linkViews(const Arguments& arguments, const std::vector<AbstractPtr>& outputs) {
  for (const AbstractPtr& output : outputs) {
    std::shared_ptr<std::vector<std::weak_ptr<TensorCell>>> parts;
    forEachCell(output, [&](const CellPtr& cell) {
      const CellPtr base = baseOf(arguments, *cell);
      if (!base || base == cell) return;
      cell->base = base;
      cell->base_version = base->version;
      cell->view = cell->value->node();
      cell->view_output = cell->value->offset();
      cell->view_arguments = arguments;
      views_.push_back(cell);
      if (cell->view->kind() != c10::prim::ListUnpack) return;
      const Node* list = cell->view->input()->node();
      if (!splits(list)) return;
      if (!parts) parts = std::make_shared<std::vector<std::weak_ptr<TensorCell>>>();
      parts->push_back(cell);
      cell->view = cell->view->input()->node();
      cell->parts = parts;
    });
  }
}

/// The view op again, on the base as it is now.
Value* Specializer::replay(const CellPtr& cell) {
  if (cell->view->kind() == c10::prim::ListUnpack) {
    refuseUnsupported(cell->view,
                      "a tensor is written, and then read through a list of views of it");
  }
  const Value* old = cell->view->inputs().at(0);
  Node* again = graph_->insertNode(
      graph_->createClone(cell->view, [&](Value* v) { return v == old ? cell->base->value : v; }));
  if (!cell->parts) return again->outputs().at(cell->view_output);
  Node* unpack = graph_->insertNode(graph_->createListUnpack(again->output(), cell->parts->size()));
  stamp(unpack, cell->view);
  for (const auto& weak : *cell->parts) {
    const CellPtr part = weak.lock();
    Value* value = unpack->outputs().at(part->view_output);
    value->setType(part->value->type());
    part->value = value;
    part->base_version = part->base->version;
    if (part != cell) part->version++;
  }
  return cell->value;
}

/// [a, b, c] with one of them new, put together again.
AbstractPtr Specializer::joinParts(const CellPtr& view, const AbstractPtr& contents,
                                   const Node* at) {
  Arguments all;
  for (const auto& weak : *view->parts) {
    const CellPtr part = weak.lock();
    all.push_back(part == view ? contents : tensorOf(part));
  }
  const at::Tensor &one = view->first, &whole = view->base->first;
  const auto list =
      container(Abstract::Kind::List, all, c10::ListType::create(c10::TensorType::get()));
  if (one.dim() != whole.dim())
    return emitOne(at, "aten::stack", {list, view->view_arguments.at(1)});
  int64_t dim = 0;
  while (dim < whole.dim() && one.size(dim) == whole.size(dim)) ++dim;
  return all.size() == 1 || dim == whole.dim() ? contents
                                               : emitOne(at, "aten::cat", {list, plain(dim)});
}

/// For any view: where its elements lie in the base is seen by taking the view of 0..numel-1.
AbstractPtr Specializer::scatterThrough(const CellPtr& view, const AbstractPtr& contents,
                                        const Node* at) {
  const AbstractPtr base = tensorOf(view->base), none = plain({});
  const auto flat = [&](const AbstractPtr& x) {
    const auto all = container(Abstract::Kind::List, {plain(int64_t{-1})}, c10::ListType::ofInts());
    return emitOne(at, "aten::reshape", {x, all});
  };
  const auto dtype = plain(static_cast<int64_t>(at::kLong));
  const AbstractPtr ones =
      emitOne(at, "aten::ones_like", {base, dtype, none, none, plain(false), none});
  const AbstractPtr from_one = emitOne(at, "aten::cumsum", {flat(ones), plain(int64_t{0}), none});
  Arguments arguments = view->view_arguments;
  arguments[0] =
      emitOne(at, "aten::reshape_as",
              {emitOne(at, "aten::sub", {from_one, plain(int64_t{1}), plain(int64_t{1})}), base});
  const AbstractPtr places = emitOne(at, view->view->kind().toQualString(), arguments);
  const AbstractPtr written =
      emitOne(at, "aten::scatter", {flat(base), plain(int64_t{0}), flat(places), flat(contents)});
  return emitOne(at, "aten::reshape_as", {written, base});
}

/// The base's new contents, given the new contents of a view of it.
AbstractPtr Specializer::writeThrough(const CellPtr& view, const AbstractPtr& contents,
                                      const Node* at) {
  const AbstractPtr base = tensorOf(view->base);
  const std::string name = view->view->kind().toQualString();
  Arguments arguments = view->view_arguments;
  const bool first = arguments.at(0)->kind == Abstract::Kind::Tensor && !view->parts;
  const bool overlaps = view->first.numel() > view->base->first.numel() || name == "aten::unfold" ||
                        name == "aten::expand" || name == "aten::as_strided";
  static const std::map<std::string, std::string> opposites = {
      {"aten::view_as_real", "aten::view_as_complex"},
      {"aten::view_as_complex", "aten::view_as_real"}};
  if (const auto opposite = opposites.find(name); opposite != opposites.end())
    return emitOne(at, opposite->second, {contents});
  if (view->first.scalar_type() != view->base->first.scalar_type() ||
      (view->view->kind() == c10::prim::ListUnpack && !keepsOrder(*view)) ||
      (overlaps && !keepsOrder(*view))) {
    refuseUnsupported(at, "an in-place write through " + name);
  }
  if (view->parts) return joinParts(view, contents, at);
  if (keepsOrder(*view)) {
    return view->first.sizes() == view->base->first.sizes()
               ? contents
               : emitOne(at, "aten::reshape_as", {contents, base});
  }
  static const std::map<std::string, std::string> scatters = {
      {"aten::select", "aten::select_scatter"},
      {"aten::slice", "aten::slice_scatter"},
      {"aten::diagonal", "aten::diagonal_scatter"}};
  static const std::set<std::string> own_inverse = {"aten::transpose", "aten::t",  "aten::swapaxes",
                                                    "aten::swapdims",  "aten::mT", "aten::numpy_T"};
  if (const auto scatter = scatters.find(name); first && scatter != scatters.end()) {
    arguments[0] = base;
    arguments.insert(arguments.begin() + 1, contents);
    return emitOne(at, scatter->second, arguments);
  }
  if (first && own_inverse.count(name)) {
    arguments[0] = contents;
    return emitOne(at, name, arguments);
  }
  if (!first) refuseUnsupported(at, "an in-place write through " + name);
  return scatterThrough(view, contents, at);
}

}  // namespace chorus
