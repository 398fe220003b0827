#include "runtime/solo_recurrent.h"

#include <torch/csrc/jit/runtime/operator.h>

#include "chorus/random.h"

namespace chorus {
namespace {

using torch::jit::Stack;

constexpr const char* kArguments =
    "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
    "bool bidirectional, bool batch_first) -> (Tensor, Tensor";

constexpr const char* kArgumentsPacked =
    "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
    "bool bidirectional) -> (Tensor, Tensor";

using Pair = std::tuple<at::Tensor, at::Tensor>;
/// An op with one state: on [T,N,C], and on packed steps.
struct Single {
  Pair (*padded)(const at::Tensor&, const at::Tensor&, at::TensorList, bool, int64_t, double, bool,
                 bool, bool);
  Pair (*packed)(const at::Tensor&, const at::Tensor&, const at::Tensor&, at::TensorList, bool,
                 int64_t, double, bool, bool);
};

struct Network {
  const Single* single = nullptr;  ///< null: LSTM
  at::Tensor rows;                 ///< of each packed step; undefined: the input is not packed
  std::vector<at::Tensor> states, params;
  bool biases, train, bidirectional, batch_first;
  int64_t layers;
  double p;
};

/// y, then the last states of layer `l`.
std::vector<at::Tensor> runLayer(const Network& net, const at::Tensor& x, int64_t l) {
  const int64_t directions = net.bidirectional ? 2 : 1;
  const auto width = static_cast<int64_t>(net.params.size()) / net.layers;
  const at::TensorList params =
      at::TensorList(net.params).slice(static_cast<size_t>(l * width), static_cast<size_t>(width));
  std::vector<at::Tensor> states;
  for (const at::Tensor& state : net.states)
    states.push_back(state.narrow(0, l * directions, directions));
  if (net.rows.defined() && net.single) {
    const auto [y, h] = net.single->packed(x, net.rows, states[0], params, net.biases, 1, 0.0,
                                           net.train, net.bidirectional);
    return {y, h};
  }
  if (net.rows.defined()) {
    const auto [y, h, c] =
        at::lstm(x, net.rows, states, params, net.biases, 1, 0.0, net.train, net.bidirectional);
    return {y, h, c};
  }
  if (!net.single) {
    const auto [y, h, c] = at::lstm(x, states, params, net.biases, 1, 0.0, net.train,
                                    net.bidirectional, net.batch_first);
    return {y, h, c};
  }
  const auto [y, h] = net.single->padded(x, states[0], params, net.biases, 1, 0.0, net.train,
                                         net.bidirectional, net.batch_first);
  return {y, h};
}

void runNetwork(const Single* single, bool packed, Stack& stack) {
  Network net;
  net.single = single;
  net.batch_first = !packed && torch::jit::pop(stack).toBool();
  net.bidirectional = torch::jit::pop(stack).toBool();
  net.train = torch::jit::pop(stack).toBool();
  net.p = torch::jit::pop(stack).toDouble();
  net.layers = torch::jit::pop(stack).toInt();
  net.biases = torch::jit::pop(stack).toBool();
  net.params = torch::jit::pop(stack).toTensorVector();
  const c10::IValue states = torch::jit::pop(stack);
  net.states = single ? std::vector<at::Tensor>{states.toTensor()} : states.toTensorVector();
  if (packed) net.rows = torch::jit::pop(stack).toTensor();
  at::Tensor x = torch::jit::pop(stack).toTensor();
  std::vector<std::vector<at::Tensor>> last(net.states.size());
  for (int64_t l = 0; l < net.layers; ++l) {
    const auto results = runLayer(net, x, l);
    x = results[0];
    for (size_t i = 0; i < last.size(); ++i) last[i].push_back(results[i + 1]);
    if (l + 1 < net.layers && net.train && net.p > 0) x = x * keepMask(x, net.p, 0, false);
  }
  torch::jit::push(stack, x);
  for (const auto& states_of : last) torch::jit::push(stack, at::cat(states_of, 0));
}

#define CHORUS_SINGLE(op)                                                                       \
  {                                                                                             \
    [](const at::Tensor& x, const at::Tensor& h, at::TensorList p, bool b, int64_t l, double d, \
       bool t, bool both, bool first) { return at::op(x, h, p, b, l, d, t, both, first); },     \
        [](const at::Tensor& x, const at::Tensor& rows, const at::Tensor& h, at::TensorList p,  \
           bool b, int64_t l, double d, bool t,                                                 \
           bool both) { return at::op(x, rows, h, p, b, l, d, t, both); }                       \
  }
const Single kGru = CHORUS_SINGLE(gru), kTanh = CHORUS_SINGLE(rnn_tanh),
             kRelu = CHORUS_SINGLE(rnn_relu);
#undef CHORUS_SINGLE

}  // namespace

void registerSoloRecurrentOps() {
  static const bool registered = [] {
    const std::pair<std::string, const Single*> all[] = {
        {"lstm", nullptr}, {"gru", &kGru}, {"rnn_tanh", &kTanh}, {"rnn_relu", &kRelu}};
    for (const auto& entry : all) {
      const Single* single = entry.second;
      const std::string states = single ? "Tensor hx, " : "Tensor[] hx, ";
      const std::string end = single ? ")" : ", Tensor)";
      for (const bool packed : {false, true}) {
        const std::string text =
            "chorus::solo_" + entry.first +
            (packed ? "_packed(Tensor data, Tensor batch_sizes, " : "(Tensor input, ") + states +
            (packed ? kArgumentsPacked : kArguments) + end;
        torch::jit::registerOperator(torch::jit::Operator(
            text, [single, packed](Stack& stack) { runNetwork(single, packed, stack); },
            c10::AliasAnalysisKind::FROM_SCHEMA));
      }
    }
    return true;
  }();
  static_cast<void>(registered);
}

std::optional<c10::Symbol> soloRecurrent(const torch::jit::Node* node) {
  static const std::set<std::string> names = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
  const std::string name = node->kind().toUnqualString();
  if (!node->kind().is_aten() || !names.count(name)) return std::nullopt;
  const bool packed = node->schema().argumentIndexWithName("batch_sizes").has_value();
  return c10::Symbol::fromQualString("chorus::solo_" + name + (packed ? "_packed" : ""));
}

}  // namespace chorus
