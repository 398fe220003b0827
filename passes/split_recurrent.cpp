#include <torch/csrc/jit/ir/constants.h>

#include "chorus/diagnostics.h"
#include "chorus/member.h"
#include "chorus/pass.h"
#include "passes/split_dropouts.h"

namespace chorus {
namespace {

using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
// (data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)
constexpr size_t kInput = 0;

size_t indexOf(const Node* node, const char* argument) {
  return static_cast<size_t>(*node->schema().argumentIndexWithName(argument));
}

std::optional<c10::IValue> constantOf(const Node* node, const char* argument) {
  return torch::jit::toIValue(node->input(indexOf(node, argument)));
}

bool isSequence(const Node* node) {
  const std::string op = node->kind().toQualString();
  return op == "aten::lstm" || op == "aten::gru" || op == "aten::rnn_tanh" ||
         op == "aten::rnn_relu";
}

/// Layers of an op that drops between them; 0 where there is nothing to do.
int64_t layersToSplit(const Node* node, bool idle) {
  if (node->input(indexOf(node, "params"))->node()->kind() != c10::prim::ListConstruct) return 0;
  const auto layers = constantOf(node, "num_layers"), p = constantOf(node, "dropout"),
             train = constantOf(node, "train"), both = constantOf(node, "bidirectional");
  const bool never = p && p->isDouble() && p->toDouble() == 0;
  if (!layers || !train || !both || !train->toBool()) return 0;
  if (never && (!idle || layers->toInt() == 1)) return 0;
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
  int64_t directions = constantOf(node, "bidirectional")->toBool() ? 2 : 1;
  size_t state = indexOf(node, "hx"), params = indexOf(node, "params");

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
      for (Value* one : node->input(state)->node()->inputs()) states.push_back(stateOf(one, l));
      inputs[state] = listOf(states);
    } else {
      inputs[state] = stateOf(inputs[state], l);
    }
    const auto all = node->input(params)->node()->inputs();
    const size_t width = all.size() / static_cast<size_t>(layers);
    inputs[params] = listOf(all.slice(static_cast<size_t>(l) * width, width));
    inputs[indexOf(node, "num_layers")] = graph.insertConstant(1);
    inputs[indexOf(node, "dropout")] = graph.insertConstant(0.0);
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
      x = emit(c10::aten::dropout,
               {x, node->input(indexOf(node, "dropout")), node->input(indexOf(node, "train"))},
               x->type());
    }
    node->output(0)->replaceAllUsesWith(x);
    for (size_t i = 0; i < last.size(); ++i) {
      Value* h = emit(c10::aten::cat, {listOf(last[i]), 0}, node->output(i + 1)->type());
      node->output(i + 1)->replaceAllUsesWith(h);
    }
  }
};

/// A number that nothing reads is the same in all members.
void forgetDropout(Node* node) {
  const auto p = constantOf(node, "dropout"), train = constantOf(node, "train");
  const bool off = train && train->isBool() && !train->toBool();
  if (!off || !p || !p->isDouble() || p->toDouble() == 0) return;
  const torch::jit::WithInsertPoint here(node);
  node->replaceInput(indexOf(node, "dropout"), node->owningGraph()->insertConstant(0.0));
}

void run(std::shared_ptr<Graph>& graph) {
  for (Node* node : graph->nodes()) {
    if (isSequence(node)) forgetDropout(node);
  }
  splitRecurrent(graph, false);
}

}  // namespace

void splitRecurrent(const std::shared_ptr<Graph>& graph, bool idle) {
  std::vector<std::pair<Node*, int64_t>> found;
  for (Node* node : graph->nodes()) {
    const int64_t layers = isSequence(node) ? layersToSplit(node, idle) : 0;
    if (layers > 0) found.emplace_back(node, layers);
  }
  for (const auto& entry : found) {
    const torch::jit::WithInsertPoint here(entry.first);
    Splitter{*graph, entry.first, entry.second}.run();
    entry.first->destroy();
  }
}

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
          "is not 0; of packed sequences too. In evaluation the probability becomes 0.",
      .optional = false,
      .run = run,
  };
}

}  // namespace chorus
