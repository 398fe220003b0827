#pragma once

#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include "chorus/loss.h"

namespace chorus::test {

/// The body of a loss in a module of its own: outputs [K,...] -> losses [K].
inline at::Tensor runLoss(const LossRequest& request, const std::vector<at::Tensor>& outputs,
                          const at::Tensor& target) {
  const LossCode code = findLoss(request.spec.name).build(request);
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  torch::jit::Module module("Losses", unit), constants("Constants", unit);
  for (const auto* group : {&code.constants, &code.shared_constants}) {
    for (const auto& [name, tensor] : *group) constants.register_buffer(name, tensor);
  }
  module.register_module("chorus", constants);
  module.define("def losses(self, outputs: List[Tensor], target: Tensor) -> Tensor:\n" + code.body);
  return module.get_method("losses")({outputs, target}).toTensor();
}

inline LossRequest requestFor(const std::string& loss, const at::Tensor& output,
                              std::map<std::string, std::vector<std::string>> arguments = {},
                              std::map<std::string, at::Tensor> tensors = {}) {
  LossRequest request;
  request.spec = {loss, std::move(arguments), std::move(tensors)};
  request.k = static_cast<size_t>(output.size(0));
  request.output_ranks = {static_cast<size_t>(output.dim() - 1)};
  request.output_dtypes = {output.scalar_type()};
  request.output_sizes.emplace_back();
  for (int64_t d = 1; d < output.dim(); ++d) request.output_sizes[0].emplace_back(output.size(d));
  return request;
}

/// Losses and the gradient of their sum against those of `alone(k, output_k, target_k)`.
template <typename Alone>
void expectLoss(const LossRequest& request, const at::Tensor& values, const at::Tensor& target,
                bool stacked_target, const Alone& alone) {
  const at::Tensor output = values.detach().clone().set_requires_grad(true);
  const at::Tensor losses = runLoss(request, {output}, target);
  ASSERT_EQ(losses.sizes(), at::IntArrayRef({output.size(0)}));
  losses.sum().backward();
  for (int64_t k = 0; k < output.size(0); ++k) {
    const at::Tensor mine = values[k].detach().clone().set_requires_grad(true);
    const at::Tensor loss = alone(k, mine, stacked_target ? target[k] : target);
    loss.backward();
    EXPECT_TRUE(at::allclose(losses[k], loss, 1e-9, 1e-12, true))
        << request.spec.name << ": loss of member " << k << ": " << losses[k] << " not " << loss;
    EXPECT_TRUE(at::allclose(output.grad()[k], mine.grad(), 1e-9, 1e-12, true))
        << request.spec.name << ": gradient of member " << k;
  }
}

/// Output-like numbers, fp64; sizes are equal on purpose.
inline at::Tensor numbersLike(at::IntArrayRef sizes, double shift = 0) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return at::sin(at::arange(count, at::kDouble) * 1.3 + shift).view(sizes) * 2;
}

}  // namespace chorus::test
