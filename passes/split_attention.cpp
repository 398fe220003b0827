#include <torch/csrc/jit/ir/constants.h>

#include <cmath>

#include "chorus/pass.h"
#include "passes/split_dropouts.h"

namespace chorus {
namespace {

using torch::jit::Graph;
using torch::jit::NamedValue;
using torch::jit::Node;
using torch::jit::Value;

// (query, key, value, attn_mask?, dropout_p, is_causal, *, scale?, enable_gqa)
constexpr size_t kQuery = 0, kKey = 1, kValue = 2, kMask = 3, kDropout = 4, kCausal = 5, kScale = 6,
                 kGrouped = 7;

using Sizes = std::vector<c10::ShapeSymbol>;

std::optional<Sizes> sizesOf(const Value* value) {
  const auto type = value->type()->cast<c10::TensorType>();
  return type ? type->symbolic_sizes().sizes() : std::nullopt;
}

c10::TensorTypePtr typeLike(const Value* like, const Sizes& sizes,
                            std::optional<at::ScalarType> dtype) {
  const auto& type = like->type()->expectRef<c10::TensorType>();
  return c10::TensorType::create(dtype, type.device(), c10::SymbolicShape(sizes), {},
                                 type.requiresGrad());
}

std::optional<at::ScalarType> dtypeOf(const Value* value) {
  return value->type()->expectRef<c10::TensorType>().scalarType();
}

struct Attention {
  Graph& graph;
  Node* node;
  Sizes query, key;

  Value* emit(const char* op, const std::vector<NamedValue>& arguments, const c10::TypePtr& type,
              const std::vector<NamedValue>& named = {}) {
    Value* value = graph.insert(c10::Symbol::fromQualString(op), arguments, named);
    value->node()->copyMetadata(node);
    return value->setType(type);
  }

  std::optional<c10::IValue> constant(size_t i) const {
    return torch::jit::toIValue(node->input(i));
  }

  /// The scale of the products; none where the width of a head is not known.
  std::optional<double> scale() const {
    const auto given = constant(kScale);
    if (!given) return std::nullopt;
    if (given->isDouble()) return given->toDouble();
    if (!query.back().is_static()) return std::nullopt;
    return 1.0 / std::sqrt(static_cast<double>(query.back().static_size()));
  }

  /// Query heads that share one head of key and value; 0 where it is not known.
  int64_t headsPerGroup() const {
    const auto grouped = constant(kGrouped);
    if (!grouped || !grouped->isBool()) return 0;
    if (!grouped->toBool() || query.size() < 3) return 1;
    const auto q = query[query.size() - 3], k = key[key.size() - 3];
    if (!q.is_static() || !k.is_static() || k.static_size() == 0) return 0;
    return q.static_size() / k.static_size();
  }

  bool canSplit() const {
    const auto causal = constant(kCausal);
    return scale() && headsPerGroup() > 0 && causal && causal->isBool();
  }

  /// [..,Hkv,S,E] -> [..,Hq,S,E]
  Value* everyHead(Value* value) {
    const int64_t count = headsPerGroup();
    if (count == 1) return value;
    Sizes sizes = *sizesOf(value);
    sizes[sizes.size() - 3] = query[query.size() - 3];
    return emit("aten::repeat_interleave", {value, count, -3},
                typeLike(value, sizes, dtypeOf(value)));
  }

  Value* hide(Value* scores, Value* visible) {
    Value* hidden = emit("aten::logical_not", {visible}, visible->type());
    return emit("aten::masked_fill", {scores, hidden, -std::numeric_limits<double>::infinity()},
                scores->type());
  }

  void run() {
    Sizes sizes = query;
    sizes.back() = key[key.size() - 2];
    Value* q = node->input(kQuery);
    Value* k = everyHead(node->input(kKey));
    Sizes turned = *sizesOf(k);
    std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
    k = emit("aten::transpose", {k, -2, -1}, typeLike(k, turned, dtypeOf(k)));
    q = emit("aten::mul", {q, *scale()}, q->type());
    Value* scores = emit("aten::matmul", {q, k}, typeLike(q, sizes, dtypeOf(q)));
    const bool causal = constant(kCausal)->toBool();
    const bool masked = !node->input(kMask)->mustBeNone();
    if (causal) {
      const auto type = typeLike(scores, sizes, at::kBool);
      Value* ones = emit("aten::ones_like", {scores}, type,
                         {NamedValue("dtype", static_cast<int64_t>(at::kBool))});
      scores = hide(scores, emit("aten::tril", {ones}, type));
    }
    if (masked) {
      Value* mask = node->input(kMask);
      scores = dtypeOf(mask) == at::kBool ? hide(scores, mask)
                                          : emit("aten::add", {scores, mask}, scores->type());
    }
    // A row that sees nothing attends to nothing, as in the op.
    Value* weights = causal || masked ? emit("aten::_safe_softmax", {scores, -1}, scores->type())
                                      : emit("aten::softmax", {scores, -1}, scores->type());
    weights = emit("aten::dropout", {weights, node->input(kDropout), true}, weights->type());
    Value* v = everyHead(node->input(kValue));
    node->output()->replaceAllUsesWith(emit("aten::matmul", {weights, v}, node->output()->type()));
  }
};

void run(std::shared_ptr<Graph>& graph) { splitAttention(graph, false); }

}  // namespace

void splitAttention(const std::shared_ptr<Graph>& graph, bool idle) {
  std::vector<Node*> found;
  for (Node* node : graph->nodes()) {
    if (node->kind() != c10::Symbol::fromQualString("aten::scaled_dot_product_attention")) continue;
    const auto p = torch::jit::toIValue(node->input(kDropout));
    if (p && p->isDouble() && (p->toDouble() > 0 || (idle && p->toDouble() == 0)))
      found.push_back(node);
  }
  for (Node* node : found) {
    const auto query = sizesOf(node->input(kQuery)), key = sizesOf(node->input(kKey));
    if (!query || !key || query->size() < 2 || key->size() != query->size()) continue;
    Attention attention{*graph, node, *query, *key};
    if (!attention.canSplit()) continue;
    const torch::jit::WithInsertPoint here(node);
    attention.run();
    node->destroy();
  }
}

Pass split_attention() {
  return {
      .name = "split-attention",
      .summary = "attention that drops becomes products, a softmax and a dropout",
      .description =
          "    %y = aten::scaled_dot_product_attention(%q, %k, %v, %mask, 0.1, False, None, "
          "False)\n"
          "    ==>\n"
          "    %s = aten::matmul(%q * 1/sqrt(E), aten::transpose(%k, -2, -1)) + %mask\n"
          "    %w = aten::dropout(aten::_safe_softmax(%s, -1), 0.1, True)\n"
          "    %y = aten::matmul(%w, %v)\n"
          "\n"
          "so that its mask is drawn as that of any dropout. Only where the probability is a "
          "constant "
          "above 0: without it the\n"
          "op keeps its own kernels. Query, key and value of one rank; the width of a head is "
          "known, "
          "or the scale is given.",
      .optional = false,
      .run = run,
  };
}

}  // namespace chorus
