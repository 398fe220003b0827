#include "runtime/solo_recurrent.h"

#include <torch/csrc/jit/runtime/operator.h>

#include "chorus/random.h"

namespace chorus {
namespace {

using torch::jit::Stack;

constexpr const char* kArguments =
    "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
    "bool bidirectional, bool batch_first) -> (Tensor, Tensor";

using Single = std::tuple<at::Tensor, at::Tensor> (*)(const at::Tensor&, const at::Tensor&,
                                                      at::TensorList, bool, int64_t, double, bool,
                                                      bool, bool);

struct Network {
  Single single = nullptr;  ///< null: LSTM
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
  if (!net.single) {
    const auto [y, h, c] = at::lstm(x, states, params, net.biases, 1, 0.0, net.train,
                                    net.bidirectional, net.batch_first);
    return {y, h, c};
  }
  const auto [y, h] = net.single(x, states[0], params, net.biases, 1, 0.0, net.train,
                                 net.bidirectional, net.batch_first);
  return {y, h};
}

void runNetwork(Single single, Stack& stack) {
  Network net;
  net.single = single;
  net.batch_first = torch::jit::pop(stack).toBool();
  net.bidirectional = torch::jit::pop(stack).toBool();
  net.train = torch::jit::pop(stack).toBool();
  net.p = torch::jit::pop(stack).toDouble();
  net.layers = torch::jit::pop(stack).toInt();
  net.biases = torch::jit::pop(stack).toBool();
  net.params = torch::jit::pop(stack).toTensorVector();
  const c10::IValue states = torch::jit::pop(stack);
  net.states = single ? std::vector<at::Tensor>{states.toTensor()} : states.toTensorVector();
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

Single gru() {
  return [](const at::Tensor& x, const at::Tensor& h, at::TensorList p, bool b, int64_t l, double d,
            bool t, bool both, bool first) { return at::gru(x, h, p, b, l, d, t, both, first); };
}
Single tanhNetwork() {
  return
      [](const at::Tensor& x, const at::Tensor& h, at::TensorList p, bool b, int64_t l, double d,
         bool t, bool both, bool first) { return at::rnn_tanh(x, h, p, b, l, d, t, both, first); };
}
Single reluNetwork() {
  return
      [](const at::Tensor& x, const at::Tensor& h, at::TensorList p, bool b, int64_t l, double d,
         bool t, bool both, bool first) { return at::rnn_relu(x, h, p, b, l, d, t, both, first); };
}

}  // namespace

void registerSoloRecurrentOps() {
  static const bool registered = [] {
    const std::pair<std::string, Single> all[] = {{"lstm", nullptr},
                                                  {"gru", gru()},
                                                  {"rnn_tanh", tanhNetwork()},
                                                  {"rnn_relu", reluNetwork()}};
    for (const auto& [name, single] : all) {
      const std::string states = single ? "Tensor hx, " : "Tensor[] hx, ";
      torch::jit::registerOperator(torch::jit::Operator(
          "chorus::solo_" + name + "(Tensor input, " + states + kArguments +
              (single ? ")" : ", Tensor)"),
          [single = single](Stack& stack) { runNetwork(single, stack); },
          c10::AliasAnalysisKind::FROM_SCHEMA));
    }
    return true;
  }();
  static_cast<void>(registered);
}

std::optional<c10::Symbol> soloRecurrent(const torch::jit::Node* node) {
  static const std::set<std::string> names = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
  const std::string name = node->kind().toUnqualString();
  if (!node->kind().is_aten() || !names.count(name)) return std::nullopt;
  if (!node->schema().argumentIndexWithName("batch_first")) return std::nullopt;
  return c10::Symbol::fromQualString("chorus::solo_" + name);
}

}  // namespace chorus
