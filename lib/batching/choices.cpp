// Places where members compute different things (lib/support/choice.h). Members of one variant run
// together:
//
//     y = choice: f(x) | g(x)   ==>   x0, x1 = split(x, [2,1]);  y = cat([f*(x0), g*(x1)])
//
// where f* is f, batched for the members of variant 0. Where a variant's members are not
// neighbours, they are taken one by one: x0 = stack([x[0], x[2]]).
#include "lib/batching/batcher.h"
#include "lib/batching/clone_node.h"
#include "lib/support/choice.h"
#include "lib/support/fault.h"

namespace chorus {
namespace {

using Rows = std::vector<int64_t>;

/// Members by variant, in the order of the variants; those that nobody has are left out.
struct VariantGroup {
  size_t variant = 0;
  Rows members;
};

std::vector<VariantGroup> groupsOf(const std::vector<size_t>& variants, size_t count) {
  std::vector<VariantGroup> groups;
  for (size_t v = 0; v < count; ++v) {
    VariantGroup group{v, {}};
    for (size_t k = 0; k < variants.size(); ++k) {
      if (variants[k] == v) group.members.push_back(static_cast<int64_t>(k));
    }
    if (!group.members.empty()) groups.push_back(std::move(group));
  }
  if (fault("regions_swapped") && groups.size() > 1)
    std::swap(groups[0].variant, groups[1].variant);
  return groups;
}

Rows sizesOf(const std::vector<VariantGroup>& groups) {
  Rows sizes;
  for (const VariantGroup& group : groups)
    sizes.push_back(static_cast<int64_t>(group.members.size()));
  return sizes;
}

/// The groups one behind the other are the members in their order.
bool inOrder(const std::vector<VariantGroup>& groups) {
  int64_t next = 0;
  for (const VariantGroup& group : groups) {
    for (const int64_t member : group.members) {
      if (member != next++) return false;
    }
  }
  return true;
}

std::string membersText(const VariantGroup& group) {
  std::string text = group.members.size() == 1 ? "member " : "members ";
  for (size_t i = 0; i < group.members.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(group.members[i]);
  }
  return text;
}

std::vector<Value*> unpacked(Graph& graph, Value* list, size_t count) {
  return graph.insertNode(graph.createListUnpack(list, count))->outputs().vec();
}

Value* listOf(Graph& graph, const std::vector<Value*>& values) {
  return graph.insertNode(graph.createList(c10::TensorType::get(), values))->output();
}

/// [K,...] -> for each group its rows [M,...].
std::vector<Value*> piecesOf(Graph& graph, Value* stacked, const std::vector<VariantGroup>& groups,
                             size_t k) {
  if (inOrder(groups)) {
    Value* list = graph.insert(c10::aten::split_with_sizes, {stacked, sizesOf(groups), 0});
    return unpacked(graph, list, groups.size());
  }
  const std::vector<Value*> rows =
      unpacked(graph, graph.insert(c10::aten::unbind, {stacked, 0}), k);
  std::vector<Value*> pieces;
  for (const VariantGroup& group : groups) {
    std::vector<Value*> mine;
    for (const int64_t member : group.members) mine.push_back(rows.at(static_cast<size_t>(member)));
    pieces.push_back(graph.insert(c10::aten::stack, {listOf(graph, mine), 0}));
  }
  return pieces;
}

/// The way back.
Value* together(Graph& graph, const std::vector<Value*>& pieces,
                const std::vector<VariantGroup>& groups, size_t k) {
  if (inOrder(groups)) return graph.insert(c10::aten::cat, {listOf(graph, pieces), 0});
  std::vector<Value*> rows(k);
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto parts =
        unpacked(graph, graph.insert(c10::aten::unbind, {pieces[g], 0}), groups[g].members.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      rows[static_cast<size_t>(groups[g].members[i])] = parts[i];
    }
  }
  return graph.insert(c10::aten::stack, {listOf(graph, rows), 0});
}

/// Random ops emitted since `before` draw for these members: chorus::keep_mask(...) ->
/// chorus::keep_mask_of(..., rows).
void drawFor(Graph& graph, Node* before, const Rows& members) {
  static const std::set<std::string> ops = {"chorus::keep_mask", "chorus::kept", "chorus::uniform",
                                            "chorus::gaussian"};
  for (Node* node = graph.insertPoint()->prev(); node != before; node = node->prev()) {
    const std::string op = node->kind().toQualString();
    if (!ops.contains(op)) continue;
    std::vector<Value*> inputs = node->inputs().vec();
    const torch::jit::WithInsertPoint here(node);
    inputs.push_back(graph.insertConstant(members));
    Node* made = graph.insertNode(graph.create(c10::Symbol::fromQualString(op + "_of"), inputs));
    made->output()->copyMetadata(node->output());
    made->copyMetadata(node);
    node->replaceAllUsesWith(made);
    node->destroy();
    node = made;
  }
}

}  // namespace

void Batcher::visitChoice(const Node* node) {
  const std::vector<VariantGroup> groups = groupsOf(variants_, node->blocks().size());
  if (groups.empty()) throw Refused(internalError("a choice in a graph without variants"));
  const size_t decided = result_.decisions.size();
  const auto decideApart = [&](size_t from, const VariantGroup& group) {
    for (size_t i = from; i < result_.decisions.size(); ++i) {
      Decision& decision = result_.decisions[i];
      decision.kind = Decision::Kind::Apart;
      decision.reason = "of " + membersText(group) + " only";
    }
  };
  if (groups.size() == 1) {
    const torch::jit::Block& block = *node->blocks()[groups[0].variant];
    visitBlock(block);
    for (size_t i = 0; i < node->outputs().size(); ++i) {
      Operand result = operandOf(block.outputs()[i]);
      if (!result.stacked) result = {stackedOf(node, result), true};
      bind(node->output(i), result);
    }
    decideApart(decided, groups[0]);
    return;
  }
  const size_t k = variants_.size();
  std::map<const Value*, std::vector<Value*>> pieces;
  for (const Value* value : valuesRead(node)) {
    if (pieces.contains(value) || value->type()->kind() != c10::TypeKind::TensorType) continue;
    const Operand whole = operandOf(value);
    if (whole.stacked) pieces[value] = piecesOf(*fused_, whole.value, groups, k);
  }
  const auto values = values_;
  const auto lists = lists_;
  Value* const count = member_count_;
  std::vector<std::vector<Value*>> results(node->outputs().size());
  for (size_t g = 0; g < groups.size(); ++g) {
    const size_t before = result_.decisions.size();
    Node* last = fused_->insertPoint()->prev();
    for (const auto& [value, parts] : pieces) bind(value, {parts[g], true});
    member_count_ = fused_->insertConstant(static_cast<int64_t>(groups[g].members.size()));
    const torch::jit::Block& block = *node->blocks()[groups[g].variant];
    visitBlock(block);
    for (size_t i = 0; i < results.size(); ++i) {
      const Operand result = operandOf(block.outputs()[i]);
      results[i].push_back(result.stacked ? result.value : stackedOf(node, result));
    }
    drawFor(*fused_, last, groups[g].members);
    decideApart(before, groups[g]);
    values_ = values;
    lists_ = lists;
  }
  member_count_ = count;
  for (size_t i = 0; i < results.size(); ++i) {
    bind(node->output(i), {together(*fused_, results[i], groups, k), true});
  }
}

}  // namespace chorus
