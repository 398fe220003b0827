#include "lib/export/gradient_reach.h"

#include <algorithm>

namespace chorus {
namespace {

using torch::jit::Block;
using Values = std::set<const Value*>;

bool mayHaveGradient(const Value* value) {
  const auto* tensor = value->type()->castRaw<c10::TensorType>();
  if (tensor == nullptr) {
    const auto kind = value->type()->kind();
    return kind == c10::TypeKind::ListType || kind == c10::TypeKind::TupleType ||
           kind == c10::TypeKind::OptionalType;
  }
  const auto dtype = tensor->scalarType();
  return !dtype || at::isFloatingType(*dtype) || at::isComplexType(*dtype);
}

/// How many of the node's operands, from the first on, its results depend on differentiably.
size_t differentiableOperands(const Node* node) {
  const std::string op = node->kind().toQualString();
  if (op == "aten::detach" || op.ends_with("_like")) return 0;
  if (op == "aten::type_as" || op.ends_with("_as")) return 1;
  return node->inputs().size();
}

Values intersection(const Values& a, const Values& b) {
  Values both;
  std::ranges::copy_if(a, std::inserter(both, both.end()),
                       [&](const Value* value) { return b.contains(value); });
  return both;
}

class Reach {
 public:
  explicit Reach(Branches branches) : branches_(branches) {}

  /// Adds to `reached` what its values are made of, in `block` and around it.
  void through(const Block* block, Values& reached) const {
    for (const Node* node : block->nodes().reverse()) {
      const auto is_reached = [&](const Value* output) { return reached.contains(output); };
      if (!std::ranges::any_of(node->outputs(), is_reached)) continue;
      if (node->kind() == torch::jit::prim::If) {
        throughIf(node, reached);
      } else if (node->kind() == torch::jit::prim::Loop) {
        throughLoop(node, reached);
      } else {
        add(node->inputs().slice(0, differentiableOperands(node)), reached);
      }
    }
  }

  static void add(const auto& values, Values& reached) {
    for (const Value* value : values) {
      if (mayHaveGradient(value)) reached.insert(value);
    }
  }

 private:
  /// What the results of `block` that stand for reached results of its node are made of.
  Values within(const Block* block, size_t first, const Values& reached) const {
    Values inside;
    const auto results = block->return_node()->inputs();
    for (size_t i = 0; i + first < results.size(); ++i) {
      if (!reached.contains(block->owningNode()->output(i))) continue;
      add(results.slice(i + first, 1), inside);
    }
    through(block, inside);
    return inside;
  }

  void throughIf(const Node* node, Values& reached) const {
    const Values yes = within(node->blocks()[0], 0, reached);
    const Values no = within(node->blocks()[1], 0, reached);
    if (branches_ == Branches::Surely) return reached.merge(intersection(yes, no));
    reached.insert(yes.begin(), yes.end());
    reached.insert(no.begin(), no.end());
  }

  /// Operands: most trips, condition, the carried values; the body has (trip, carried values) and
  /// gives (condition, carried values).
  void throughLoop(const Node* node, Values& reached) const {
    const Block* body = node->blocks()[0];
    Values carried;  // results that are reached, all trips considered
    add(node->outputs(), carried);
    std::erase_if(carried, [&](const Value* output) { return !reached.contains(output); });
    Values inside;
    for (size_t before = carried.size() + 1; before != carried.size();) {
      before = carried.size();
      inside = within(body, 1, carried);
      for (size_t i = 0; i < node->outputs().size(); ++i) {
        const bool passed_on = inside.contains(body->inputs()[i + 1]);
        if (branches_ == Branches::Maybe && passed_on) carried.insert(node->output(i));
        if (branches_ == Branches::Surely && !passed_on) carried.erase(node->output(i));
      }
    }
    for (size_t i = 0; i < node->outputs().size(); ++i) {
      if (carried.contains(node->output(i))) add(node->inputs().slice(i + 2, 1), reached);
    }
    if (branches_ == Branches::Maybe) reached.insert(inside.begin(), inside.end());
  }

  Branches branches_;
};

}  // namespace

std::set<const Value*> reachedByGradients(const CanonicalGraph& canonical, Branches branches) {
  Values reached;
  Reach::add(canonical.graph->outputs().slice(0, canonical.n_outputs), reached);
  Reach(branches).through(canonical.graph->block(), reached);
  return reached;
}

}  // namespace chorus
