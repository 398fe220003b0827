// Branches and loops that stay in the graph: their condition or length depends on data, or on the
// batch size.
//
//   if c: y = f(x)        ==>  y = prim::If(c): f(x) | x
//   for _ in range(n): h = f(h)
//                         ==>  h = prim::Loop(n, True, h): f(h)
//
// Each block is walked like straight code, with everything that it changes noted and undone:
// tensors that it writes become results of the node. Results are tensors, or numbers where the
// branches differ; containers meet element by element.
#include "lib/import/undecided.h"
#include "lib/import/example_run.h"
#include "lib/import/specializer.h"

namespace chorus {
namespace {

using torch::jit::Block;
using torch::jit::WithInsertPoint;

at::Tensor emptyLike(const at::Tensor& like, const std::vector<int64_t>& sizes) {
  return at::empty(sizes, like.options().device(at::kMeta));
}

bool sameKind(const at::Tensor& a, const at::Tensor& b) {
  return a.dim() == b.dim() && a.scalar_type() == b.scalar_type();
}

bool followsData(const AbstractPtr& condition) { return condition->data || condition->number; }

/// Example shapes of a tensor that is one or the other. Where data decide, sizes that differ are
/// made to differ between the examples, which is how a size that is not fixed is known. Where the
/// batch size decides, each example goes one way.
void meetShapes(const AbstractPtr& condition, const TensorCell& x, const TensorCell& y,
                TensorCell& into) {
  if (!followsData(condition)) {
    const at::Tensor& a = condition->first.toBool() ? x.first : y.first;
    const at::Tensor& b = condition->second.toBool() ? x.second : y.second;
    into.first = emptyLike(a, a.sizes().vec());
    into.second = emptyLike(b, b.sizes().vec());
    return;
  }
  std::vector<int64_t> first = x.first.sizes().vec(), second = x.second.sizes().vec();
  for (size_t d = 0; d < first.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (first[d] == y.first.size(dim) && second[d] == y.second.size(dim)) continue;
    if (second[d] == first[d]) second[d] = first[d] + 1;
  }
  into.first = emptyLike(x.first, first);
  into.second = emptyLike(x.second, second);
}

bool isConstant(const AbstractPtr& a) {
  return a->kind == Abstract::Kind::Plain && !a->value && !a->number && !a->varies;
}

bool sameConstant(const AbstractPtr& a, const AbstractPtr& b) {
  if (!isConstant(a) || !isConstant(b)) return false;
  return a->first.tagKind() == b->first.tagKind() && (a->first.isNone() || a->first == b->first);
}

AbstractPtr clashing(const std::string& what) {
  AbstractPtr made = plain(c10::IValue());
  made->clash = what;
  return made;
}

std::shared_ptr<TensorCell> rootOf(std::shared_ptr<TensorCell> cell) {
  while (cell->base) cell = cell->base;
  return cell;
}

}  // namespace

AbstractPtr computedNumber(const c10::IValue& example, Value* value) {
  AbstractPtr made = plain(example);
  made->varies = made->data = true;
  made->value = value->setType(example.type());
  if (example.isInt()) made->second = example.toInt() + 1;
  if (example.isDouble()) made->second = example.toDouble() + 1;
  if (example.isBool()) made->second = !example.toBool();
  return made;
}

void forEachTensor(const AbstractPtr& a,
                   const std::function<void(const std::shared_ptr<TensorCell>&)>& f) {
  if (a->kind == Abstract::Kind::Tensor) f(a->cell);
  for (const AbstractPtr& item : a->items) forEachTensor(item, f);
}

Specializer::CellPtr Specializer::newCell() {
  auto made = std::make_shared<TensorCell>();
  cells_.push_back(made);
  return made;
}

Specializer::Snapshot Specializer::snapshot() {
  Snapshot all;
  std::erase_if(cells_, [](const auto& cell) { return cell.expired(); });
  for (const auto& weak : cells_) {
    if (const CellPtr cell = weak.lock()) all.emplace_back(cell, *cell);
  }
  return all;
}

/// As a number of the graph.
Value* Specializer::number(const AbstractPtr& a, const c10::TypePtr& wanted) {
  if (a->value) return a->value;
  if (!a->number) return graph_->insertConstant(a->first);
  const bool integer = wanted->kind() == c10::TypeKind::IntType || a->first.isInt();
  const bool boolean = wanted->kind() == c10::TypeKind::BoolType || a->first.isBool();
  const char* reader = boolean ? "aten::Bool" : integer ? "aten::Int" : "aten::Float";
  return graph_->insert(c10::Symbol::fromQualString(reader), {read(a->number->cell)});
}

/// A copy that later writes do not reach, with the values of this point.
AbstractPtr Specializer::freeze(const AbstractPtr& a) {
  auto made = std::make_shared<Abstract>(*a);
  if (a->kind == Abstract::Kind::Tensor) {
    Value* value = read(a->cell);
    made->cell = std::make_shared<TensorCell>(*a->cell);
    made->cell->value = value;
    made->cell->base = nullptr;
    made->cell->parts = nullptr;
    made->cell->slot = std::nullopt;
    made->number = nullptr;
  } else if (isContentsOfTensor(a)) {
    made->value = number(a, a->first.type());
    made->number = nullptr;
  }
  for (AbstractPtr& item : made->items) item = freeze(item);
  return made;
}

Specializer::BlockRun Specializer::runInto(Block* into, const Block& code, Frame& frame,
                                           const std::vector<const Value*>& results) {
  const Snapshot before = snapshot();
  BlockRun run;
  run.block = into;
  {
    const WithInsertPoint inside(into);
    ++undecided_;
    runBlock(code, frame);
    --undecided_;
    for (const Value* result : results) {
      run.named.push_back(frame.at(result));
      run.results.push_back(freeze(frame.at(result)));
    }
  }
  std::set<CellPtr> outside;
  for (const auto& [cell, was] : before) {
    outside.insert(cell);
    if (!cell->base && cell->value != was.value) run.written.emplace(cell, *cell);
  }
  for (const AbstractPtr& a : run.named) {
    run.sources.emplace_back();
    forEachTensor(a, [&](const CellPtr& cell) {
      const CellPtr root = rootOf(cell);
      if (outside.count(root)) run.sources.back().push_back(root);
    });
  }
  for (const auto& [cell, was] : before) *cell = was;
  return run;
}

/// `result` may be the memory of `sources`: neither is written from here on.
void Specializer::markMet(const std::vector<std::vector<CellPtr>>& sources,
                          const AbstractPtr& result) {
  bool any = false;
  for (const auto& some : sources) {
    for (const CellPtr& source : some) source->met = any = true;
  }
  if (any) forEachTensor(result, [](const CellPtr& cell) { cell->met = true; });
}

/// Null: they are of different rank or dtype.
Specializer::CellPtr Specializer::meetTensors(Node* branch, const AbstractPtr& condition,
                                              const BlockRun& a, const BlockRun& b,
                                              const TensorCell& x, const TensorCell& y) {
  if (!sameKind(x.first, y.first)) return nullptr;
  CellPtr met = newCell();
  meetShapes(condition, x, y, *met);
  a.block->registerOutput(x.value);
  b.block->registerOutput(y.value);
  met->value = branch->addOutput()->setType(typeOf(met->first, met->second));
  return met;
}

/// `x` of the one branch and `y` of the other as one value.
AbstractPtr Specializer::meet(Node* branch, const AbstractPtr& condition, const BlockRun& a,
                              const BlockRun& b, const AbstractPtr& x, const AbstractPtr& y) {
  if (x == y || sameConstant(x, y)) return x;
  const std::string clash = "a value that is of one kind or another, as a branch decides";
  if (!x->clash.empty() || !y->clash.empty() || x->kind != y->kind ||
      x->items.size() != y->items.size() || x->keys != y->keys) {
    return clashing(clash);
  }
  if (x->kind == Abstract::Kind::Tensor) {
    const CellPtr met = meetTensors(branch, condition, a, b, *x->cell, *y->cell);
    if (!met) return clashing("a tensor whose rank or dtype a branch decides");
    return tensorOf(met);
  }
  if (x->kind == Abstract::Kind::Plain) {
    if (!isNumber(x) || !isNumber(y) || x->first.tagKind() != y->first.tagKind()) {
      return clashing(clash);
    }
    for (const auto& [run, number] : {std::pair{&a, x}, {&b, y}}) {
      const WithInsertPoint inside(run->block);
      run->block->registerOutput(materialize(number));
    }
    AbstractPtr met = computedNumber(x->first, branch->addOutput());
    if (followsData(condition)) return met;
    // It follows the batch size: each example goes one way.
    const AbstractPtr &first = condition->first.toBool() ? x : y,
                      &second = condition->second.toBool() ? x : y;
    met->first = first->first;
    met->second = second->second;
    met->data = first->data || second->data || first->number || second->number;
    return met;
  }
  AbstractPtr met = container(x->kind, {}, x->type);
  met->keys = x->keys;
  met->depth = undecided_;
  for (size_t i = 0; i < x->items.size(); ++i) {
    met->items.push_back(meet(branch, condition, a, b, x->items[i], y->items[i]));
  }
  return met;
}

void Specializer::runUndecidedIf(const Node& node, Frame& frame) {
  const AbstractPtr condition = frame.at(node.input());
  Value* decider = number(condition, c10::BoolType::get());
  Node* branch = graph_->insertNode(graph_->create(c10::prim::If, {decider}, 0));
  stamp(branch, &node);
  std::vector<BlockRun> runs;
  for (const Block* block : node.blocks()) {
    const std::vector<const Value*> results(block->outputs().begin(), block->outputs().end());
    runs.push_back(runInto(branch->addBlock(), *block, frame, results));
  }
  const BlockRun &a = runs[0], &b = runs[1];
  std::set<CellPtr> written;
  for (const BlockRun& run : runs) {
    for (const auto& [cell, state] : run.written) written.insert(cell);
  }
  // In the order in which they were made, so that two members give one graph.
  for (const auto& entry : snapshot()) {
    const CellPtr& cell = entry.first;
    const TensorCell& was = entry.second;
    if (!written.count(cell)) continue;
    const auto state = [&](const BlockRun& run) {
      const auto found = run.written.find(cell);
      return found == run.written.end() ? was : found->second;
    };
    const CellPtr met = meetTensors(branch, condition, a, b, state(a), state(b));
    if (!met) refuseUnsupported(&node, "a tensor whose rank or dtype a branch decides");
    cell->value = met->value;
    cell->first = met->first;
    cell->second = met->second;
    cell->version++;
    forgetViews(cell);
  }
  for (size_t i = 0; i < node.outputs().size(); ++i) {
    const bool same = a.named[i] == b.named[i];
    AbstractPtr& result = frame[node.outputs()[i]];
    result = same ? a.named[i] : meet(branch, condition, a, b, a.results[i], b.results[i]);
    if (!same) markMet({a.sources[i], b.sources[i]}, result);
  }
  if (branch->outputs().empty()) branch->destroy();
}

}  // namespace chorus
