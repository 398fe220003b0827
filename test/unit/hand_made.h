// Fused models written by hand, for tests of what goes around the graphs.
#pragma once

#include <torch/csrc/jit/ir/irparser.h>

#include <string>

#include "chorus/fused_model.h"

namespace chorus::test {

/// y = x w^T + b; in train mode seen becomes 0.9 seen + mean(y). Sizes N = C = K = 3 cannot hide a
/// wrong axis.
inline const char* const kTrainText = R"(
graph(%x : Float(*, 3), %w : Float(3, 3), %b : Float(3), %seen : Float(3)):
  %rate : float = prim::Constant[value=0.9]()
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %keep : bool = prim::Constant[value=0]()
  %dims : int[] = prim::Constant[value=[0]]()
  %y : Float(*, 3) = aten::linear(%x, %w, %b)
  %mean : Float(3) = aten::mean(%y, %dims, %keep, %none)
  %old : Float(3) = aten::mul(%seen, %rate)
  %new : Float(3) = aten::add(%old, %mean, %one)
  return (%y, %new))";
inline const char* const kEvalText = R"(
graph(%x : Float(*, 3), %w : Float(3, 3), %b : Float(3), %seen : Float(3)):
  %y : Float(*, 3) = aten::linear(%x, %w, %b)
  return (%y))";

inline CanonicalGraph canonical(const std::string& text, size_t n_inputs, size_t n_outputs,
                                std::vector<size_t> updates) {
  CanonicalGraph out;
  out.graph = std::make_shared<Graph>();
  torch::jit::parseIR(text, out.graph.get());
  out.n_inputs = n_inputs;
  out.n_outputs = n_outputs;
  out.updates = std::move(updates);
  return out;
}

/// Member k of a linear net, with weights of its own.
inline Member linearMember(int64_t k, const std::vector<std::string>& names = {"fc.weight",
                                                                               "fc.bias", "seen"}) {
  Member member;
  member.name = "m" + std::to_string(k);
  member.seed = 17 + static_cast<uint64_t>(k);
  member.inputs = {{at::kFloat, {std::nullopt, 3}, std::nullopt}};
  const at::Tensor grid = at::arange(9, at::kFloat).view({3, 3});
  member.slots = {{names[0], {}, Role::Parameter, at::sin(grid + 10 * k), true},
                  {names[1], {}, Role::Parameter, at::cos(at::arange(3, at::kFloat) + k), true},
                  {names[2], {}, Role::Buffer, at::full({3}, 0.5 * static_cast<double>(k)), false}};
  member.train = canonical(kTrainText, 1, 1, {2});
  member.eval = canonical(kEvalText, 1, 1, {});
  return member;
}

/// Three of them with a loss and an optimizer.
inline FusedModel linearModel(const std::string& loss, const std::string& optimizer,
                              const std::map<std::string, std::vector<double>>& values = {}) {
  FusedModel model = stackMembers({linearMember(0), linearMember(1), linearMember(2)});
  if (!loss.empty()) model.loss = LossSpec{loss, {}, {}};
  if (optimizer.empty()) return model;
  OptimizerSpec spec{optimizer, values, {}};
  for (const Hyperparameter& h : findOptimizer(optimizer).hyperparameters) {
    if (!spec.values.count(h.name)) spec.values[h.name] = std::vector<double>(3, *h.default_value);
  }
  model.optimizer = spec;
  resetState(model);
  return model;
}

inline at::Tensor batch(int64_t step) {
  return at::sin(at::arange(9, at::kFloat).view({3, 3}) * 1.7 + static_cast<double>(step));
}
inline at::Tensor labels(int64_t step) { return (at::arange(3, at::kLong) + step) % 3; }

/// Every tensor of the module by name, as copies.
inline std::map<std::string, at::Tensor> stateOf(const torch::jit::Module& module) {
  std::map<std::string, at::Tensor> state;
  for (const auto& p : module.named_parameters()) state[p.name] = p.value.detach().clone();
  for (const auto& b : module.named_buffers()) state[b.name] = b.value.detach().clone();
  return state;
}

/// The message of what `act` throws; "" if it does not.
template <typename Act>
std::string messageOf(const Act& act) {
  try {
    act();
  } catch (const std::exception& failure) {
    return failure.what();
  }
  return "";
}

}  // namespace chorus::test
