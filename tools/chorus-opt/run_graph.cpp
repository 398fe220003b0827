#include "tools/chorus-opt/run_graph.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <cstdio>

#include "chorus/diagnostics.h"
#include "chorus/member.h"

namespace chorus {
namespace {

using torch::jit::Graph;
using torch::jit::Value;

at::Tensor randomTensor(at::ScalarType dtype, const std::vector<int64_t>& sizes, uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  if (dtype == at::kBool) return at::rand(sizes, generator).gt(0.5);
  if (at::isIntegralType(dtype, true)) return at::randint(0, 4, sizes, generator).to(dtype);
  // Multiples of 1/8: sums of a few are exact in any order.
  return at::randn(sizes, generator).mul(8).round().div(8).to(dtype);
}

c10::IValue randomInput(const Value* value, uint64_t seed, bool stacked, int64_t k) {
  const auto& type = value->type();
  if (type->kind() == c10::TypeKind::IntType) return int64_t{2};
  if (type->kind() == c10::TypeKind::FloatType) return 0.5;
  if (type->kind() == c10::TypeKind::BoolType) return true;
  const auto tensor = type->cast<c10::TensorType>();
  const auto rank = tensor ? tensor->dim() : std::nullopt;
  if (!rank) {
    throw Refused(error("cannot make up input %" + value->debugName() + " of type " + type->str())
                      .helpWith("give its sizes, e.g. Float(2, 3)"));
  }
  std::vector<int64_t> sizes;
  if (stacked) sizes.push_back(k);
  for (size_t d = 0; d < *rank; ++d) sizes.push_back(tensor->sizes()[d].value_or(2));
  return randomTensor(tensor->scalarType().value_or(at::kFloat), sizes, seed);
}

std::string tensorText(const at::Tensor& tensor) {
  std::string text = dtypeName(tensor.scalar_type()) + "[";
  for (int64_t d = 0; d < tensor.dim(); ++d)
    text += (d ? "," : "") + std::to_string(tensor.size(d));
  text += "] =";
  const at::Tensor flat = tensor.detach().to(at::kDouble).contiguous().view({-1});
  for (int64_t i = 0; i < flat.numel(); ++i) {
    char number[32];
    // + 0.0: no "-0"
    std::snprintf(number, sizeof number, " %.5g", flat[i].item<double>() + 0.0);
    text += number;
  }
  return text;
}

std::string valueText(const c10::IValue& value) {
  if (value.isTensor()) return tensorText(value.toTensor());
  std::ostringstream text;
  text << "= " << value;
  return text.str();
}

}  // namespace

std::vector<c10::IValue> randomInputs(const Graph& graph, uint64_t seed,
                                      const std::vector<bool>& stacked, int64_t k) {
  std::vector<c10::IValue> inputs;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const bool is_stacked = i < stacked.size() && stacked[i];
    inputs.push_back(randomInput(graph.inputs()[i], seed * 1000 + i, is_stacked, k));
  }
  return inputs;
}

std::string runGraph(const std::shared_ptr<Graph>& graph, const std::vector<c10::IValue>& inputs,
                     uint64_t seed) {
  at::manual_seed(seed);
  torch::jit::Stack stack(inputs.begin(), inputs.end());
  const torch::jit::Code code(graph->copy(), "chorus_opt");
  torch::jit::InterpreterState(code).run(stack);
  std::string text;
  for (size_t i = 0; i < stack.size(); ++i) {
    text += "output " + std::to_string(i) + ": " + valueText(stack[i]) + "\n";
  }
  return text;
}

}  // namespace chorus
