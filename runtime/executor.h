// The module of a fused model, called without detours: methods looked up once, one stack reused.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include "chorus/dataset.h"
#include "chorus/fused_model.h"
#include "chorus/random.h"

namespace chorus {

class Executor {
 public:
  /// Sets LibTorch's process switches for straight-line graphs (no profiling, no graph optimiser).
  Executor(const FusedModel& model, uint64_t seed);

  void train() { module_.train(); }
  void eval() { module_.eval(); }

  /// One update on one batch: the losses [K].
  at::Tensor trainStep(const Batch& batch);
  /// Losses [K] and gradients [K,...] of their sum.
  std::pair<at::Tensor, std::vector<at::Tensor>> gradients(const Batch& batch);
  void update(const std::vector<at::Tensor>& gradients);
  /// The model's tensors in the order of Member::output, stacked, without gradients.
  std::vector<at::Tensor> outputs(const Batch& batch);
  /// Losses [K] of outputs that have been computed already.
  at::Tensor loss(const std::vector<at::Tensor>& outputs, const at::Tensor& target);
  at::Tensor lossWithGradient(const std::vector<at::Tensor>& outputs, const at::Tensor& target);

  RandomContext& random() { return random_; }

 private:
  void push(const Batch& batch);

  torch::jit::Module module_;
  torch::jit::Function* train_step_ = nullptr;
  RandomContext random_;
  torch::jit::Stack stack_;
};

}  // namespace chorus
