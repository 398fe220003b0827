#include <torch/csrc/jit/ir/constants.h>

#include "chorus/diagnostics.h"
#include "chorus/member.h"
#include "chorus/pass.h"

namespace chorus {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
constexpr size_t kInput = 0, kState = 1, kParams = 2, kLayers = 4, kDropout = 5, kTrain = 6,
                 kBidirectional = 7;

bool isSequence(const Node* node) {
  const std::string op = node->kind().toQualString();
  const bool named =
      op == "aten::lstm" || op == "aten::gru" || op == "aten::rnn_tanh" || op == "aten::rnn_relu";
  return named && node->schema().argumentIndexWithName("batch_first");
}

/// Layers of an op that drops between them; 0 where there is nothing to do.
int64_t layersToSplit(const Node* node) {
  if (!isSequence(node) || node->input(kParams)->node()->kind() != c10::prim::ListConstruct)
    return 0;
  const auto layers = torch::jit::toIValue(node->input(kLayers));
  const auto p = torch::jit::toIValue(node->input(kDropout));
  const auto train = torch::jit::toIValue(node->input(kTrain));
  const auto both = torch::jit::toIValue(node->input(kBidirectional));
  const bool never = p && p->isDouble() && p->toDouble() == 0;
  if (!layers || !train || !both || !train->toBool() || never) return 0;
  return layers->toInt();
}

c10::TensorTypePtr withSize(const Value* like, size_t dim, std::optional<int64_t> size) {
  const auto& type = like->type()->expectRef<c10::TensorType>();
  auto sizes = *type.sizes().sizes();
  sizes[dim] = size;
  return c10::TensorType::create(type.scalarType(), type.device(), c10::SymbolicShape(sizes), {},
                                 type.requiresGrad());
}

struct Splitter {
  Graph& graph;
  Node* node;
  int64_t layers;
  bool lstm = node->kind() == c10::aten::lstm;
  int64_t directions = torch::jit::toIValue(node->input(kBidirectional))->toBool() ? 2 : 1;

  Value* emit(c10::Symbol op, const std::vector<torch::jit::NamedValue>& arguments,
              const c10::TypePtr& type) {
    Value* value = graph.insert(op, arguments);
    value->node()->copyMetadata(node);
    return value->setType(type);
  }

  /// [(L D),N,H] -> [D,N,H] of layer `l`.
  Value* stateOf(Value* all, int64_t l) {
    return emit(c10::aten::slice, {all, 0, l * directions, (l + 1) * directions},
                withSize(all, 0, directions));
  }

  Value* listOf(at::ArrayRef<Value*> values) {
    Node* list = graph.insertNode(graph.createList(c10::TensorType::get(), values));
    list->copyMetadata(node);
    return list->output();
  }

  Node* layer(int64_t l, Value* x) {
    std::vector<Value*> inputs = node->inputs().vec();
    inputs[kInput] = x;
    if (lstm) {
      std::vector<Value*> states;
      for (Value* state : node->input(kState)->node()->inputs())
        states.push_back(stateOf(state, l));
      inputs[kState] = listOf(states);
    } else {
      inputs[kState] = stateOf(inputs[kState], l);
    }
    const auto all = node->input(kParams)->node()->inputs();
    const size_t width = all.size() / static_cast<size_t>(layers);
    inputs[kParams] = listOf(all.slice(static_cast<size_t>(l) * width, width));
    inputs[kLayers] = graph.insertConstant(1);
    inputs[kDropout] = graph.insertConstant(0.0);
    Node* made = graph.insertNode(graph.create(node->kind(), inputs, node->outputs().size()));
    made->copyMetadata(node);
    made->output(0)->setType(node->output(0)->type());
    for (size_t i = 1; i < made->outputs().size(); ++i)
      made->output(i)->setType(withSize(node->output(i), 0, directions));
    return made;
  }

  void run() {
    Value* x = node->input(kInput);
    std::vector<std::vector<Value*>> last(node->outputs().size() - 1);
    for (int64_t l = 0; l < layers; ++l) {
      Node* made = layer(l, x);
      x = made->output(0);
      for (size_t i = 0; i < last.size(); ++i) last[i].push_back(made->output(i + 1));
      if (l + 1 == layers) break;
      x = emit(c10::aten::dropout, {x, node->input(kDropout), node->input(kTrain)}, x->type());
    }
    node->output(0)->replaceAllUsesWith(x);
    for (size_t i = 0; i < last.size(); ++i) {
      Value* h = emit(c10::aten::cat, {listOf(last[i]), 0}, node->output(i + 1)->type());
      node->output(i + 1)->replaceAllUsesWith(h);
    }
  }
};

void run(std::shared_ptr<Graph>& graph) {
  std::vector<Node*> found;
  for (Node* node : graph->nodes()) {
    if (layersToSplit(node) > 0) found.push_back(node);
  }
  for (Node* node : found) {
    const torch::jit::WithInsertPoint here(node);
    Splitter{*graph, node, layersToSplit(node)}.run();
    node->destroy();
  }
}

}  // namespace

Pass split_recurrent() {
  return {
      .name = "split-recurrent",
      .summary = "a recurrent network that drops between its layers becomes layers and dropouts",
      .description =
          "    %y, %h = aten::gru(%x, %h0, %params, ..., num_layers=2, dropout=0.5, train=True)\n"
          "    ==>\n"
          "    %y0, %h1 = aten::gru(%x, %h0[:1], %params[:4], ..., num_layers=1, dropout=0)\n"
          "    %z = aten::dropout(%y0, 0.5, True)\n"
          "    %y, %h2 = aten::gru(%z, %h0[1:], %params[4:], ..., num_layers=1, dropout=0)\n"
          "    %h = aten::cat([%h1, %h2], 0)\n"
          "\n"
          "so that its masks are drawn as those of any dropout. LSTM, GRU and both RNNs, in "
          "training, where the probability\n"
          "is not 0. Packed sequences stay as they are.",
      .optional = false,
      .run = run,
  };
}

}  // namespace chorus
