#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include "chorus/pass.h"
#include "lib/support/layout_ops.h"
#include "lib/support/marker_ops.h"
#include "lib/support/value_types.h"
#include "passes/layout_rows.h"

namespace chorus {
namespace {

using torch::jit::Graph;
using torch::jit::NamedValue;
using torch::jit::Node;
using torch::jit::Value;

/// A K-first value of the graph that also exists channel-merged.
struct Merged {
  Value* value = nullptr;  ///< [N,(K C),...]
  Value* k = nullptr;      ///< int value K
};

struct State {
  Graph& graph;
  std::unordered_map<Value*, Merged> merged;  ///< K-first value -> its merged form
  std::unordered_map<Value*, Value*> merges;  ///< K-first value -> result of a merge of it
  std::unordered_map<Value*, Value*> split;   ///< merged value -> its view [N,K,C,...]
};

const Merged* find(const State& state, Value* value) {
  const auto found = state.merged.find(value);
  return found == state.merged.end() ? nullptr : &found->second;
}

// Of a K-first value [K,N,C,...].
std::optional<int64_t> channelsOf(const Value* value) {
  const auto type = value->type()->cast<c10::TensorType>();
  if (!type) return std::nullopt;
  const auto sizes = type->sizes().sizes();
  if (!sizes || sizes->size() < 3) return std::nullopt;
  return (*sizes)[2];
}

Value* emit(State& state, const Node* from, const char* op, std::vector<NamedValue> arguments) {
  return state.graph.insert(c10::Symbol::fromQualString(op), arguments, {}, from->sourceRange());
}

// [N,(K C),...] -> [N,K,C,...], a view
Value* splitChannels(State& state, const Node* from, const Merged& merged) {
  Value*& split = state.split[merged.value];
  if (split) return split;
  Value* rest = state.graph.insertConstant(-1);
  Node* list = state.graph.createList(c10::IntType::get(), {merged.k, rest});
  Value* sizes = state.graph.insertNode(list)->output();
  split = emit(state, from, "aten::unflatten", {merged.value, 1, sizes});
  return split;
}

// [N,K,C,...] -> [N,(K C),...]
Value* joinChannels(State& state, const Node* from, Value* split) {
  Value* merged = emit(state, from, "aten::flatten", {split, 1, 2});
  state.split[merged] = split;
  return merged;
}

// A clone of `node` at the insert point with other operands (by position).
Node* cloneWith(State& state, Node* node, const std::map<size_t, Value*>& operands) {
  Node* clone = state.graph.createClone(node, [](Value* value) { return value; });
  for (const auto& [i, operand] : operands) clone->replaceInput(i, operand);
  return state.graph.insertNode(clone);
}

// From here on `node`'s output is the unmerge of `merged`.
void replaceByMerged(State& state, Node* node, Value* merged, Value* k) {
  Value* old = node->output();
  if (const auto rank = rankOf(old)) merged->setType(typeOfRank(old, *rank - 1));
  Value* k_first = state.graph.insert(unmergeSymbol(), {merged, k});
  k_first->copyMetadata(old);
  old->replaceAllUsesWith(k_first);
  state.merged[k_first] = {merged, k};
  node->destroy();
}

bool hasArgument(const Node* node, const std::string& argument) {
  const auto* schema = node->maybeSchema();
  return schema && schema->argumentIndexWithName(argument).has_value();
}

// ---- pointwise: op(unmerge(x), ...) -> unmerge(op(x, ...))

enum class Fit {
  Direct,   ///< merged already, or broadcasts over N and (K C): as it is
  Split,    ///< only beside [N,K,C,...]
  Unknown,  ///< rank not known, or too high
};

// How operand `value` fits to merged operands of rank `rank`.
Fit fitOf(const State& state, Value* value, int64_t rank) {
  const auto own = rankOf(value);
  if (find(state, value)) return own == rank + 1 ? Fit::Direct : Fit::Unknown;
  if (!own || *own > rank + 1) return Fit::Unknown;
  return *own <= std::max<int64_t>(0, rank - 2) ? Fit::Direct : Fit::Split;
}

// All merged operands have one known number of channels: otherwise C may broadcast against 1.
bool sameChannels(const State& state, const std::vector<Value*>& operands) {
  std::optional<int64_t> channels;
  std::set<Value*> distinct;
  for (Value* operand : operands) {
    if (!find(state, operand)) continue;
    distinct.insert(operand);
    const auto own = channelsOf(operand);
    if (channels && own != channels) return false;
    if (!own && distinct.size() > 1) return false;
    channels = own;
  }
  return true;
}

// The operand beside [N,K,C,...], of rank `rank` + 1.
Value* beside(State& state, const Node* node, Value* value, int64_t rank) {
  if (const Merged* merged = find(state, value)) return splitChannels(state, node, *merged);
  const int64_t own = *rankOf(value);
  if (own == rank + 1)
    return emit(state, node, "aten::transpose", {value, 0, 1});  // [K,N,..] -> [N,K,..]
  if (own == rank)
    return emit(state, node, "aten::unsqueeze", {value, 1});  // [N,C,..] -> [N,1,C,..]
  return value;
}

bool sinkPointwise(State& state, Node* node) {
  const bool in_first = isPointwiseInFirst(node->kind().toQualString());
  if (!in_first && !isPointwise(node->kind().toQualString())) return false;
  if (node->outputs().size() != 1 || !isTensor(node->output())) return false;
  std::map<size_t, Value*> tensors;
  for (size_t i = 0; i < node->inputs().size(); ++i) {
    if (in_first && i > 0) break;
    if (isTensor(node->input(i))) tensors[i] = node->input(i);
  }
  std::vector<Value*> operands;
  const Merged* first = nullptr;
  for (const auto& [i, value] : tensors) {
    operands.push_back(value);
    if (!first) first = find(state, value);
  }
  if (!first) return false;
  Value* k = first->k;
  bool direct = true;
  std::optional<int64_t> rank;
  if (operands.size() > 1) {
    for (Value* operand : operands) {
      if (find(state, operand) && rankOf(operand))
        rank = std::max(rank.value_or(0), *rankOf(operand) - 1);
    }
    if (!rank) return false;
    for (Value* operand : operands) {
      const Fit fit = fitOf(state, operand, *rank);
      if (fit == Fit::Unknown) return false;
      direct = direct && fit == Fit::Direct;
    }
    direct = direct && sameChannels(state, operands);
  }
  std::map<size_t, Value*> replaced;
  for (const auto& [i, value] : tensors) {
    const Merged* merged = find(state, value);
    replaced[i] = direct ? (merged ? merged->value : value) : beside(state, node, value, *rank);
  }
  Value* result = cloneWith(state, node, replaced)->output();
  if (direct) {
    replaceByMerged(state, node, result, k);
    return true;
  }
  result->setType(typeOfRank(node->output(), *rank + 1));
  replaceByMerged(state, node, joinChannels(state, node, result), k);
  return true;
}

// ---- cat(unmerge(x), ..., d) -> unmerge(cat(x, ..., d')), channels through [N,K,C,...]

bool sinkCat(State& state, Node* node) {
  if (node->kind() != c10::aten::cat) return false;
  Node* list = node->input(0)->node();
  const auto constant = constantArgument(node, "dim");
  if (list->kind() != c10::prim::ListConstruct || !constant || !constant->isInt()) return false;
  const auto rank = rankOf(node->output());
  int64_t dim = constant->toInt();
  if (dim < 0) {
    if (!rank) return false;
    dim += *rank;
  }
  Value* k = nullptr;
  bool all = true;
  for (Value* value : list->inputs()) {
    const Merged* merged = find(state, value);
    if (merged) k = merged->k;
    if (!merged && (!rank || rankOf(value) != rank)) return false;
    all = all && merged;
  }
  if (!k || dim < 1) return false;
  const bool split = !all || dim == 2;
  std::vector<Value*> parts;
  for (Value* value : list->inputs()) {
    const Merged* merged = find(state, value);
    if (!split)
      parts.push_back(merged->value);
    else if (merged)
      parts.push_back(splitChannels(state, node, *merged));
    else
      parts.push_back(emit(state, node, "aten::transpose", {value, 0, 1}));  // [K,N,..] -> [N,K,..]
  }
  Value* made =
      state.graph.insertNode(state.graph.createList(c10::TensorType::get(), parts))->output();
  // In [N,K,C,...] dims from C on are numbered as K first; merged one less.
  const int64_t at = dim == 1 ? 0 : (split ? dim : dim - 1);
  Value* result = emit(state, node, "aten::cat", {made, at});
  if (split) result = joinChannels(state, node, result);
  replaceByMerged(state, node, result, k);
  return true;
}

// ---- ops along dims: d >= 3 becomes d - 1; a channel dim (2) stays 2, on [N,K,C,...]

// Dims of `node`, wrapped; empty if not known.
std::vector<int64_t> wrappedDims(const Node* node, const std::string& argument) {
  const auto constant = constantArgument(node, argument);
  if (!constant) return {};
  std::vector<int64_t> dims;
  if (constant->isInt()) dims = {constant->toInt()};
  if (constant->isIntList()) dims = constant->toIntVector();
  const auto rank = rankOf(node->input(0));
  const int64_t extra = node->kind() == c10::aten::unsqueeze ? 1 : 0;
  for (int64_t& dim : dims) {
    if (dim >= 0) continue;
    if (!rank) return {};
    dim += *rank + extra;
  }
  std::sort(dims.begin(), dims.end());
  return dims;
}

bool sinkAlongDims(State& state, Node* node) {
  const AlongDims* row = findAlongDims(node->kind().toQualString());
  if (!row || node->outputs().size() != 1 || !hasArgument(node, row->dims)) return false;
  const Merged* found = find(state, node->input(0));
  if (!found) return false;
  const Merged merged = *found;
  std::vector<int64_t> dims = wrappedDims(node, row->dims);
  if (dims.empty()) return false;
  const int64_t lowest = *std::min_element(dims.begin(), dims.end());
  const auto keepdim =
      hasArgument(node, "keepdim") ? constantArgument(node, "keepdim") : std::nullopt;
  const bool keeps = row->keeps_rank || (keepdim && keepdim->isBool() && keepdim->toBool());
  const bool split = lowest == 2;
  if (lowest < 2 || (split && !keeps)) return false;
  const size_t place = *node->schema().argumentIndexWithName(row->dims);
  if (!split) {
    for (int64_t& dim : dims) --dim;
  }
  const bool scalar = torch::jit::toIValue(node->input(place))->isInt();
  Value* at = state.graph.insertConstant(scalar ? c10::IValue(dims[0]) : c10::IValue(dims));
  Value* x = split ? splitChannels(state, node, merged) : merged.value;
  Value* result = cloneWith(state, node, {{0, x}, {place, at}})->output();
  result->setType(typeOfRank(result, std::nullopt));
  if (split) result = joinChannels(state, node, result);
  replaceByMerged(state, node, result, merged.k);
  return true;
}

// ---- flatten(unmerge(x), 2, e) -> unmerge(flatten(x, 1, e - 1))

bool sinkFlatten(State& state, Node* node) {
  if (node->kind() != c10::aten::flatten || !hasArgument(node, "start_dim")) return false;
  const Merged* found = find(state, node->input(0));
  const auto start = constantArgument(node, "start_dim");
  const auto end = constantArgument(node, "end_dim");
  if (!found || !start || !end || !start->isInt() || !end->isInt() || start->toInt() < 2)
    return false;
  const Merged merged = *found;
  const int64_t last = end->toInt() < 0 ? end->toInt() : end->toInt() - 1;
  replaceByMerged(state, node,
                  emit(state, node, "aten::flatten", {merged.value, start->toInt() - 1, last}),
                  merged.k);
  return true;
}

// ---- pad(unmerge(x)) -> unmerge(pad(x)) where no padding reaches the channels

bool sinkPad(State& state, Node* node) {
  if (node->kind() != c10::aten::constant_pad_nd && node->kind() != c10::aten::pad) return false;
  const Merged* found = find(state, node->input(0));
  const auto rank = rankOf(node->input(0));
  const auto pad = constantArgument(node, "pad");
  if (!found || !rank || !pad || !pad->isIntList()) return false;
  const int64_t padded = static_cast<int64_t>(pad->toIntVector().size()) / 2;
  if (padded > *rank - 3) return false;
  const Merged merged = *found;
  replaceByMerged(state, node, cloneWith(state, node, {{0, merged.value}})->output(), merged.k);
  return true;
}

// ---- size(unmerge(x), d): K, N, H, W are known without the view

bool sinkSize(State& state, Node* node) {
  if (node->kind() != c10::aten::size || !hasArgument(node, "dim")) return false;
  const Merged* merged = find(state, node->input(0));
  const auto dim = constantArgument(node, "dim");
  if (!merged || !dim || !dim->isInt()) return false;
  const int64_t d = dim->toInt();
  if (d < 0 || d == 2) return false;
  Value* size =
      d == 0 ? merged->k : emit(state, node, "aten::size", {merged->value, d == 1 ? 0 : d - 1});
  node->output()->replaceAllUsesWith(size);
  node->destroy();
  return true;
}

// ---- the markers themselves

bool cancelMarkers(State& state, Node* node) {
  if (node->kind() == unmergeSymbol()) {
    Node* inner = node->input(0)->node();
    if (inner->kind() == mergeSymbol()) {
      node->output()->replaceAllUsesWith(inner->input(0));
      node->destroy();
      return true;
    }
    state.merged[node->output()] = {node->input(0), node->input(1)};
    return true;
  }
  if (node->kind() != mergeSymbol()) return false;
  Value* x = node->input(0);
  if (const Merged* merged = find(state, x)) {
    node->output()->replaceAllUsesWith(merged->value);
    node->destroy();
    return true;
  }
  const auto [first, is_new] = state.merges.emplace(x, node->output());
  if (is_new) return true;
  node->output()->replaceAllUsesWith(first->second);
  node->destroy();
  return true;
}

void chooseLayouts(std::shared_ptr<Graph>& graph) {
  State state{*graph, {}, {}, {}};
  Node* const end = graph->return_node();
  for (Node *node = end->next(), *next = nullptr; node != end; node = next) {
    torch::jit::WithInsertPoint here(node);
    Node* const before = node->prev();
    if (workOnRows(*graph, node)) {
      next = before->next();
      continue;
    }
    next = node->next();
    if (cancelMarkers(state, node)) continue;
    if (sinkPointwise(state, node) || sinkCat(state, node) || sinkAlongDims(state, node)) continue;
    if (sinkFlatten(state, node) || sinkPad(state, node)) continue;
    sinkSize(state, node);
  }
  torch::jit::EliminateDeadCode(graph);
}

}  // namespace

Pass layout() {
  return {
      .name = "layout",
      .summary =
          "chooses K first or channel-merged per value and removes the conversions that cancel",
      .description =
          "    merge(unmerge(x, k))        ==>  x            and the other way round\n"
          "    op(unmerge(x, k), ...)      ==>  unmerge(op(x, ...), k)\n"
          "\n"
          "for op pointwise, cat, flatten of the channels and what follows, padding and reductions "
          "of\n"
          "dims behind the channels. Where the operands' channels may differ, or one operand is K "
          "first, or the op\n"
          "works along the channels, it runs on the view [N,K,C,...] of x:\n"
          "\n"
          "    op(unmerge(x, k), y)        ==>  unmerge(op(x.unflatten(1, [k, -1]), y.transpose(0, "
          "1)).flatten(1, 2), k)\n"
          "    cat([unmerge(x, k), ...], 2)\n"
          "                                ==>  unmerge(cat([x.unflatten(1, [k, -1]), ...], "
          "2).flatten(1, 2), k)\n"
          "\n"
          "Ops that treat channels apart (pools, resizing, group_norm) work on rows where their "
          "operand is K first:\n"
          "\n"
          "    unmerge(op(merge(x)), k)    ==>  op(x.flatten(0, 1)).unflatten(0, [k, -1])\n"
          "    unmerge(group_norm(merge(x), g, w, b), k)\n"
          "                                ==>  group_norm of [1,(K N C),...] with g N groups\n"
          "\n"
          "Ranks come from the values' types; an operand of unknown rank stops the rewrite.",
      .optional = true,
      .run = chooseLayouts,
  };
}

}  // namespace chorus
