// The module of a fused model, called without detours: methods looked up once, one stack reused.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "chorus/dataset.h"
#include "chorus/fused_model.h"
#include "chorus/random.h"

namespace chorus {

/// What a forward and backward pass gives. Buffers have not moved yet: see Executor::apply.
struct StepResult {
  at::Tensor losses;                  ///< [K]
  std::vector<at::Tensor> outputs;    ///< [K,...]; they hold the graph that made them no longer
  std::vector<at::Tensor> gradients;  ///< [K,...] in the order of trainableSlots; empty: [0]
  std::vector<at::Tensor> updates;    ///< new values of buffers
};

/// Throws Refused if `failure` is a TorchScript assertion.
void refuseAssertion(const std::exception& failure);

/// Runs `work`. An assertion of the network's or the loss's code that fails on the user's data is
/// said as one: throws Refused (error) with its text.
template <class Work>
auto sayingAssertions(const Work& work) {
  try {
    return work();
  } catch (const std::exception& failure) {
    refuseAssertion(failure);
    throw;
  }
}

class Executor {
 public:
  /// Sets LibTorch's process switches for straight-line graphs (no profiling, no graph optimiser).
  Executor(const FusedModel& model, uint64_t seed);

  void train();
  void eval();

  /// Gradients of the sum of `scale` [K] times the losses; undefined: of the losses.
  StepResult step(const Batch& batch, const at::Tensor& scale = {});
  /// Buffers of active members take their new values.
  void apply(const std::vector<at::Tensor>& updates);
  /// Losses [K] and gradients [K,...] of their sum; buffers move.
  std::pair<at::Tensor, std::vector<at::Tensor>> gradients(const Batch& batch);
  void update(const std::vector<at::Tensor>& gradients);
  /// New values of a hyperparameter, e.g. "lr" or "lr_g1".
  void setHyperparameter(const std::string& name, const std::vector<double>& values);
  /// The model's tensors in the order of Member::output, stacked, without gradients; [K,0] where
  /// only the other mode has one.
  std::vector<at::Tensor> outputs(const Batch& batch);
  /// Losses [K] of outputs that have been computed already.
  at::Tensor loss(const std::vector<at::Tensor>& outputs, const Batch& batch);
  at::Tensor lossWithGradient(const std::vector<at::Tensor>& outputs, const Batch& batch);

  RandomContext& random() { return random_; }

 private:
  void push(const Batch& batch);

  torch::jit::Module module_, chorus_;
  OutputTree output_;
  RandomContext random_;
  std::vector<RandomNodes> random_nodes_;
  torch::jit::Stack stack_;
};

}  // namespace chorus
