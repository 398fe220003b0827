#include "test/conformance/run.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <sstream>

namespace chorus::conformance {

std::vector<c10::IValue> runGraph(const std::shared_ptr<Graph>& graph,
                                  const std::vector<at::Tensor>& inputs) {
  torch::jit::Stack stack(inputs.begin(), inputs.end());
  const torch::jit::Code code(graph, "conformance");
  torch::jit::InterpreterState(code).run(stack);
  return stack;
}

std::vector<at::Tensor> tensorsOf(const c10::IValue& output) {
  if (output.isTensor()) return {output.toTensor()};
  if (output.isTensorList()) return output.toTensorVector();
  if (output.isIntList()) return {at::tensor(output.toIntVector(), at::kLong)};
  if (output.isScalar()) return {at::scalar_tensor(output.toScalar())};
  if (output.isDevice()) return {at::scalar_tensor(static_cast<int64_t>(output.toDevice().type()))};
  throw std::runtime_error("an output of type " + output.tagKind());
}

std::string difference(const at::Tensor& got, const at::Tensor& wanted, double tolerance) {
  std::ostringstream text;
  if (got.scalar_type() != wanted.scalar_type()) {
    text << "dtype " << got.scalar_type() << ", not " << wanted.scalar_type();
  } else if (got.sizes() != wanted.sizes()) {
    text << "sizes " << got.sizes() << ", not " << wanted.sizes();
  } else if (!at::equal(got, wanted)) {
    const at::Tensor a = got.detach().to(at::kDouble), b = wanted.detach().to(at::kDouble);
    const double scale = 1 + at::nan_to_num(b, 0, 0, 0).abs().max().item<double>();
    if (at::allclose(a, b, 0, tolerance * scale, true)) return "";
    text << "largest difference " << at::nan_to_num(a - b).abs().max().item<double>()
         << " at scale " << scale;
  }
  return text.str();
}

std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& outputs,
                                  const std::vector<at::Tensor>& weights,
                                  const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> roots, root_weights, leaves;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    root_weights.push_back(weights[i]);
  }
  for (const at::Tensor& input : inputs) {
    if (input.requires_grad()) leaves.push_back(input);
  }
  std::vector<at::Tensor> found(leaves.size());
  if (!roots.empty() && !leaves.empty()) {
    found = torch::autograd::grad(roots, leaves, root_weights, std::nullopt, false, true);
  }
  std::vector<at::Tensor> all;
  size_t next = 0;
  for (const at::Tensor& input : inputs) {
    at::Tensor gradient = input.requires_grad() ? found[next++] : at::Tensor();
    all.push_back(gradient.defined() ? gradient : at::zeros_like(input));
  }
  return all;
}

}  // namespace chorus::conformance
