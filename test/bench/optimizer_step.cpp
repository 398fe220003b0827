// Seconds of one stacked optimizer step by the runtime's kernels: K members with rates of their
// own, T parameters of E elements. Called by optimizers.py, which times PyTorch beside it.
//
//     chorus_bench_optimizer NAME K T E STEPS [check]
//
// check: with the look for NaN and infinity that --on-nan freeze, skip and stop take.
#include <ATen/Parallel.h>

#include <chrono>
#include <iostream>

#include "chorus/fused_model.h"
#include "lib/export/state.h"
#include "runtime/optimizer_step.h"

namespace chorus {
namespace {

/// A model of T vectors whose graph adds them up: enough for the optimizer to know its parameters.
FusedModel vectors(const std::string& optimizer, size_t k, size_t tensors, int64_t elements) {
  FusedModel model;
  auto graph = std::make_shared<Graph>();
  std::vector<Value*> inputs;
  for (size_t i = 0; i < tensors; ++i) inputs.push_back(graph->addInput());
  Value* sum = inputs[0];
  for (size_t i = 1; i < tensors; ++i) sum = graph->insert(c10::aten::add, {sum, inputs[i]});
  graph->registerOutput(sum);
  model.prototype.train.graph = graph;
  model.prototype.train.n_outputs = 1;
  const auto members = static_cast<int64_t>(k);
  for (size_t i = 0; i < tensors; ++i) {
    TensorSlot slot;
    slot.name = "p" + std::to_string(i);
    slot.requires_grad = true;
    model.prototype.slots.push_back(slot);
    model.tensors.push_back(at::randn({members, elements}));
    model.stacked.push_back(true);
  }
  OptimizerSpec spec{optimizer, {}, {}, {}};
  for (const Hyperparameter& h : findOptimizer(optimizer).hyperparameters) {
    for (size_t m = 0; m < k; ++m) {
      spec.values[h.name].push_back(h.default_value.value_or(0.1) /
                                    static_cast<double>(h.name == "lr" ? m + 1 : 1));
    }
  }
  if (optimizer == "sgd") spec.values["momentum"].assign(k, 0.9);
  model.optimizer = spec;
  model.member_names.resize(k);
  model.active = at::ones({members}, at::kBool);
  resetState(model);
  return model;
}

int run(const std::vector<std::string>& arguments) {
  const size_t k = std::stoul(arguments.at(1)), tensors = std::stoul(arguments.at(2));
  const int64_t elements = std::stol(arguments.at(3)), steps = std::stol(arguments.at(4));
  at::set_num_threads(1);
  FusedModel model = vectors(arguments.at(0), k, tensors, elements);
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& tensor : model.tensors) gradients.push_back(at::randn_like(tensor));
  const std::vector<bool> everyone(k, true);
  const bool checks = arguments.size() > 5;
  const auto step = [&] {
    if (checks) finiteMembers(gradients, k);
    updateByKernel(model, *model.optimizer, 0, everyone, gradients);
  };
  for (int i = 0; i < 3; ++i) step();
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < steps; ++i) step();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  std::cout << time.count() / static_cast<double>(steps) << "\n";
  return 0;
}

}  // namespace
}  // namespace chorus

int main(int argc, char** argv) { return chorus::run({argv + 1, argv + argc}); }
