// Loops that stay in the graph: see undecided.cpp.
#include "lib/import/example_run.h"
#include "lib/import/specializer.h"
#include "lib/import/undecided.h"

namespace chorus {
namespace {

using torch::jit::Block;
using torch::jit::WithInsertPoint;

constexpr int kMostAttempts = 8;

}  // namespace

/// What is known of a loop's state; grows from attempt to attempt until the body gives back what it
/// takes.
struct Specializer::LoopShape {
  /// Of each tensor or number of the state, in order.
  struct Leaf {
    at::Tensor first, second;  ///< examples of a tensor; undefined: those of its start
    bool moves = false;        ///< a number that changes from iteration to iteration
  };
  std::vector<Leaf> leaves;
  std::vector<std::pair<CellPtr, Leaf>> written;  ///< tensors from outside that the body writes
  size_t at = 0;                                  ///< of a walk over the leaves

  Leaf& next() {
    if (at == leaves.size()) leaves.emplace_back();
    return leaves[at++];
  }
};

namespace {

template <typename Leaf>
std::shared_ptr<TensorCell> withShape(std::shared_ptr<TensorCell> made, const TensorCell& like,
                                      const Leaf& leaf, Value* value) {
  made->first = leaf.first.defined() ? leaf.first : at::empty_like(like.first, at::kMeta);
  made->second = leaf.second.defined() ? leaf.second : at::empty_like(like.second, at::kMeta);
  made->value = value->setType(typeOf(made->first, made->second));
  return made;
}

/// True where `result` has the shape that the loop takes; else `leaf` learns that a size moves.
template <typename Leaf>
bool settleShape(const TensorCell& inside, const TensorCell& result, Leaf& leaf) {
  std::vector<int64_t> first = inside.first.sizes().vec(), second = inside.second.sizes().vec();
  bool settled = true;
  for (size_t d = 0; d < first.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    const bool fixed = first[d] == second[d];
    const bool still_fixed = result.first.size(dim) == result.second.size(dim);
    if (fixed && still_fixed && first[d] == result.first.size(dim)) continue;
    if (!fixed) continue;
    second[d] = first[d] + 1;
    settled = false;
  }
  if (settled) return true;
  leaf.first = at::empty(first, inside.first.options().device(at::kMeta));
  leaf.second = at::empty(second, inside.second.options().device(at::kMeta));
  return false;
}

}  // namespace

/// The state of the loop as the body sees it.
AbstractPtr Specializer::enterLoop(const AbstractPtr& init, Node* loop, LoopShape& shape) {
  Block* body = loop->blocks().at(0);
  if (init->kind == Abstract::Kind::Tensor) {
    const LoopShape::Leaf leaf = shape.next();
    loop->addInput(read(init->cell));
    return tensorOf(withShape(newCell(), *init->cell, leaf, body->addInput()));
  }
  if (init->kind == Abstract::Kind::Plain) {
    if (!isNumber(init)) return init;
    LoopShape::Leaf& leaf = shape.next();
    leaf.moves |= init->varies || init->number;
    if (!leaf.moves) return init;
    loop->addInput(number(init, init->first.type()));
    return computedNumber(init->first, body->addInput());
  }
  if (init->kind == Abstract::Kind::Object) return init;
  auto made = container(init->kind, {}, init->type);
  made->keys = init->keys;
  made->depth = undecided_;
  for (const AbstractPtr& item : init->items) made->items.push_back(enterLoop(item, loop, shape));
  return made;
}

/// True where what the body gives back fits what it takes.
bool Specializer::settle(const Node& node, const AbstractPtr& inside, const AbstractPtr& result,
                         LoopShape& shape) {
  const auto changes = [&] {
    refuseUnsupported(&node,
                      "a loop that depends on data carries a value whose kind, rank or "
                      "dtype changes");
  };
  if (inside->kind != result->kind || inside->items.size() != result->items.size() ||
      !result->clash.empty()) {
    changes();
  }
  if (inside->kind == Abstract::Kind::Tensor) {
    const TensorCell &a = *inside->cell, &b = *result->cell;
    if (a.first.dim() != b.first.dim() || a.first.scalar_type() != b.first.scalar_type()) changes();
    return settleShape(a, b, shape.next());
  }
  if (inside->kind == Abstract::Kind::Plain) {
    if (!isNumber(inside)) {
      const bool none = inside->first.isNone() && result->first.isNone();
      if (!none && !(inside->first == result->first)) changes();
      return true;
    }
    LoopShape::Leaf& leaf = shape.next();
    if (inside->first.tagKind() != result->first.tagKind()) changes();
    if (leaf.moves || (!result->varies && result->first == inside->first)) return true;
    leaf.moves = true;
    return false;
  }
  bool settled = true;
  for (size_t i = 0; i < inside->items.size(); ++i) {
    settled = settle(node, inside->items[i], result->items[i], shape) && settled;
  }
  return settled;
}

/// The state behind the loop; gives the body's results to it.
AbstractPtr Specializer::leaveLoop(const AbstractPtr& inside, const AbstractPtr& result, Node* loop,
                                   LoopShape& shape) {
  Block* body = loop->blocks().at(0);
  if (inside->kind == Abstract::Kind::Tensor) {
    const LoopShape::Leaf leaf = shape.next();
    body->registerOutput(result->cell->value);
    return tensorOf(withShape(newCell(), *inside->cell, leaf, loop->addOutput()));
  }
  if (inside->kind == Abstract::Kind::Plain) {
    if (!isNumber(inside) || !shape.next().moves) return inside;
    const WithInsertPoint in_body(body);
    body->registerOutput(number(result, inside->first.type()));
    return computedNumber(inside->first, loop->addOutput());
  }
  auto made = std::make_shared<Abstract>(*inside);
  for (size_t i = 0; i < made->items.size(); ++i) {
    made->items[i] = leaveLoop(inside->items[i], result->items[i], loop, shape);
  }
  return made;
}

/// Emits the loop as `shape` has it. False: the body does not give back what it takes; the loop is
/// gone again, and `shape` knows more.
bool Specializer::tryLoop(const Node& node, Frame& frame, const LoopStart& start,
                          LoopShape& shape) {
  const Block& code = *node.blocks().at(0);
  Value* trips = number(start.trips, c10::IntType::get());
  if (start.begin > 0) trips = graph_->insert(c10::aten::sub, {trips, start.begin});
  Value* go = number(start.go, c10::BoolType::get());
  Node* loop = graph_->insertNode(graph_->create(c10::prim::Loop, {trips, go}, 0));
  stamp(loop, &node);
  Block* body = loop->addBlock();
  Value* i = body->addInput()->setType(c10::IntType::get());
  if (start.begin > 0) {
    const WithInsertPoint inside(body);
    i = graph_->insert(c10::aten::add, {i, start.begin});
  }
  frame[code.inputs()[0]] = computedNumber(c10::IValue(start.begin), i);
  Arguments inside;
  {
    const torch::jit::WithInsertPoint before(loop);
    shape.at = 0;
    for (size_t j = 0; j < start.carried.size(); ++j) {
      inside.push_back(enterLoop(start.carried[j], loop, shape));
      frame[code.inputs()[j + 1]] = inside.back();
    }
  }
  const Snapshot outside = snapshot();
  std::vector<TensorCell> entered;
  for (auto& [cell, leaf] : shape.written) {
    loop->addInput(cell->value);
    withShape(cell, TensorCell(*cell), leaf, body->addInput());
    cell->version++;
    forgetViews(cell);
    entered.push_back(*cell);
  }
  const std::vector<const Value*> results(code.outputs().begin(), code.outputs().end());
  const BlockRun run = runInto(body, code, frame, results);
  for (const auto& [cell, was] : outside) *cell = was;

  shape.at = 0;
  bool settled = true;
  for (size_t j = 0; j < inside.size(); ++j) {
    settled = settle(node, inside[j], run.results[j + 1], shape) && settled;
  }
  for (const auto& was : outside) {
    const CellPtr& cell = was.first;
    const auto after = run.written.find(cell);
    if (after == run.written.end()) continue;
    const auto known = std::find_if(shape.written.begin(), shape.written.end(),
                                    [&](const auto& entry) { return entry.first == cell; });
    if (known == shape.written.end()) {
      shape.written.push_back({cell, {}});
      settled = false;
    } else {
      const TensorCell& in = entered[static_cast<size_t>(known - shape.written.begin())];
      settled = settleShape(in, after->second, known->second) && settled;
    }
  }
  if (!settled) {
    loop->destroy();
    return false;
  }

  {
    const WithInsertPoint in_body(body);
    body->registerOutput(number(run.results[0], c10::BoolType::get()));
  }
  shape.at = 0;
  for (size_t j = 0; j < inside.size(); ++j) {
    AbstractPtr& result = frame[node.outputs()[j]];
    result = leaveLoop(inside[j], run.results[j + 1], loop, shape);
    std::vector<CellPtr> starts;
    forEachTensor(start.carried[j], [&](const CellPtr& cell) { starts.push_back(cell); });
    if (inside[j] != run.named[j + 1]) markMet({starts, run.sources[j + 1]}, result);
  }
  for (size_t w = 0; w < shape.written.size(); ++w) {
    const auto& [cell, leaf] = shape.written[w];
    const auto after = run.written.find(cell);
    body->registerOutput(after == run.written.end() ? entered[w].value : after->second.value);
    withShape(cell, entered[w], leaf, loop->addOutput());
    cell->version++;
    forgetViews(cell);
  }
  return true;
}

void Specializer::runUndecidedLoop(const Node& node, Frame& frame, const LoopStart& start) {
  LoopShape shape;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    if (tryLoop(node, frame, start, shape)) return;
  }
  refuseUnsupported(&node, "a loop that depends on data whose state finds no fixed shape");
}

}  // namespace chorus
