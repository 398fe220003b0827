#include <cmath>

#include "chorus/diagnostics.h"
#include "chorus/member.h"
#include "chorus/pass.h"
#include "lib/support/choice.h"
#include "lib/support/random_ops.h"
#include "lib/support/value_types.h"
#include "passes/counter_distributions.h"

namespace chorus {
namespace {

using torch::jit::Graph;
using torch::jit::NamedValue;
using torch::jit::Node;
using torch::jit::Value;

/// Emits in place of `node`: what is inserted takes its source range and scope.
struct Replacement {
  Graph& graph;
  Node* node;

  Value* add(const std::string& op, const std::vector<NamedValue>& arguments,
             const c10::TypePtr& type) {
    torch::jit::WithCurrentScope scope(graph, node->scope());
    Value* value =
        graph.insert(c10::Symbol::fromQualString(op), arguments, {}, node->sourceRange());
    value->setType(type);
    return value;
  }

  /// Built by hand: the runtime registers the op, this library does not know it.
  Value* keepMask(Value* like, double p, int64_t index) {
    torch::jit::WithCurrentScope scope(graph, node->scope());
    Node* mask = graph.create(
        c10::Symbol::fromQualString("chorus::keep_mask"),
        {like, graph.insertConstant(p), graph.insertConstant(index), graph.insertConstant(false)});
    mask->setSourceRange(node->sourceRange());
    mask->output()->setType(like->type());
    return graph.insertNode(mask)->output();
  }
};

/// [N,C,H,...] -> [N,C,1,...]: one draw per channel.
Value* onePerChannel(Replacement& emit, Value* x) {
  const auto type = x->type()->cast<c10::TensorType>();
  const auto rank = type ? type->dim() : std::nullopt;
  if (!rank) throw Refused(internalError("a feature dropout reads a tensor of unknown rank"));
  std::vector<std::optional<int64_t>> sizes(*rank, 1);
  for (size_t d = 0; d < std::min<size_t>(2, *rank); ++d) sizes[d] = type->sizes()[d];
  const auto reduced = c10::TensorType::create(type->scalarType(), type->device(),
                                               c10::SymbolicShape(sizes), {}, type->requiresGrad());
  for (size_t d = 2; d < *rank; ++d) {
    x = emit.add("aten::slice", {x, static_cast<int64_t>(d), 0, 1, 1}, reduced);
  }
  return x;
}

/// Kept elements stay and dropped ones become -alpha; then a * x + b restores mean and variance.
Value* alphaDropout(Replacement& emit, Value* x, Value* mask, double p) {
  constexpr double kAlpha = 1.7580993408473766;  // SELU's scale * alpha
  const double a = 1.0 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  const auto type = mask->type();
  Value* kept = emit.add("aten::sign", {mask}, type);
  Value* shift = emit.add("aten::add", {kept, -1.0}, type);
  shift = emit.add("aten::mul", {shift, kAlpha * a}, type);
  shift = emit.add("aten::add", {shift, kAlpha * a * p}, type);
  Value* product = emit.add("aten::mul", {x, emit.add("aten::mul", {kept, a}, type)}, x->type());
  return emit.add("aten::add", {product, shift}, x->type());
}

/// The value that replaces the dropout's output.
Value* rewriteDropout(Replacement& emit, int64_t index) {
  const Node* node = emit.node;
  Value* x = emit.node->input(0);
  const auto constant = constantArgument(node, "p");
  if (!constant || !constant->isDouble()) {
    throw Refused(
        unsupported("a dropout whose probability is computed by the model", placeOf(node)));
  }
  const double p = constant->toDouble();
  if (p == 0) return x;
  const std::string op = node->kind().toQualString();
  const bool per_channel = op.find("feature") != std::string::npos;
  Value* mask = emit.keepMask(per_channel ? onePerChannel(emit, x) : x, p, index);
  // At p = 1 alpha dropout has no finite scale: PyTorch multiplies by zero, as plain dropout does.
  if (op.find("alpha") == std::string::npos || p == 1) {
    return emit.add("aten::mul", {x, mask}, node->output()->type());
  }
  return alphaDropout(emit, x, mask, p);
}

[[noreturn]] void refuse(const Node* node) {
  const std::string op = node->kind().toUnqualString();
  Message message = unsupported(
      "'" + op + "' draws random numbers that are not yet a function of the member's seed",
      placeOf(node));
  message.note(
      "chorus-run draws what is made of uniform and normal numbers: dropout, bernoulli, rand, "
      "randn, normal, "
      "exponential, log_normal, geometric, cauchy, poisson, randint, randperm, multinomial, rrelu");
  throw Refused(message);
}

/// A node of a loop draws more than once, and one in a branch perhaps never: no counter says which
/// draw it is.
void refuseInside(const torch::jit::Block* block) {
  for (const Node* node : block->nodes()) {
    if (drawsFromCounters(node)) {
      throw Refused(unsupported(std::string("'") + node->kind().toUnqualString() +
                                    "' draws random numbers inside a branch or a loop",
                                placeOf(node)));
    }
    for (const torch::jit::Block* inner : node->blocks()) refuseInside(inner);
  }
}

void run(std::shared_ptr<Graph>& graph) {
  std::vector<Node*> random, idle;
  const std::function<void(torch::jit::Block*)> collect = [&](torch::jit::Block* block) {
    for (Node* node : block->nodes()) {
      if (drawsFromCounters(node)) random.push_back(node);
      if (isDropout(node) && trains(node) && !drawsFromCounters(node)) idle.push_back(node);
      for (torch::jit::Block* inner : node->blocks()) {
        isChoice(node) ? collect(inner) : refuseInside(inner);
      }
    }
  };
  collect(graph->block());
  for (Node* node : idle) {
    node->output()->replaceAllUsesWith(node->input(0));
    node->destroy();
  }
  for (size_t i = 0; i < random.size(); ++i) {
    Node* node = random[i];
    const std::string op = node->kind().toQualString();
    torch::jit::WithInsertPoint here(node);
    if (op == kKeptOp) {
      node->replaceInput(2, graph->insertConstant(static_cast<int64_t>(i)));
      continue;
    }
    Replacement emit{*graph, node};
    Value* drawn = isDropout(node) ? rewriteDropout(emit, static_cast<int64_t>(i))
                                   : drawnValue(node, static_cast<int64_t>(i));
    if (!drawn) refuse(node);
    node->output()->replaceAllUsesWith(drawn);
    node->destroy();
  }
}

}  // namespace

Pass counter_random() {
  return {"counter-random", "random numbers become a function of (seed, member seed, step, node)",
          "dropout(x, p, True)  ==>  mul(x, chorus::keep_mask(x, p, i, False))\n"
          "where i is the index of the node among the random nodes of the canonical graph. "
          "feature_dropout draws one\n"
          "number per channel; alpha_dropout keeps PyTorch's scale and shift. Dropouts with p = 0 "
          "go, and do not count.\n"
          "chorus::kept (a dropout of which every member has its own p) gets its number.\n"
          "bernoulli, rand, randn, uniform, normal, exponential, randint, randperm and rrelu are "
          "made of "
          "chorus::uniform and\n"
          "chorus::gaussian. Refuses every other op that draws, and draws inside branches and "
          "loops. The runtime registers "
          "the chorus:: ops\n"
          "(chorus/random.h).",
          /*optional=*/false, run};
}

}  // namespace chorus
