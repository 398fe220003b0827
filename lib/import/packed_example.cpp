#include "lib/import/packed_example.h"

#include <ATen/ATen.h>

namespace chorus {
namespace {

using torch::jit::Node;
using torch::jit::Stack;

bool packs(const Node* node) {
  return node->kind() == c10::Symbol::fromQualString("aten::_pack_padded_sequence");
}

c10::IValue onCpu(const c10::IValue& value) {
  const auto zeros = [](const at::Tensor& t) {
    return t.is_meta() ? at::zeros(t.sizes(), t.options().device(at::kCPU)) : t;
  };
  if (value.isTensor()) return zeros(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const at::Tensor& t : value.toTensorVector()) list.push_back(zeros(t));
  return list;
}

/// `most` steps in all rows, or `most - 1`, and 1 in the last row.
at::Tensor exampleLengths(const at::Tensor& like, int64_t most, bool second) {
  const int64_t steps = second ? std::max<int64_t>(most - 1, 1) : most;
  at::Tensor lengths = at::full(like.sizes(), steps, like.options().device(at::kCPU));
  if (second && lengths.numel() > 0) lengths[-1] = 1;
  return lengths;
}

}  // namespace

bool worksOnPackedSteps(const Node* node) {
  static const std::set<std::string> recurrent = {"lstm", "gru", "rnn_tanh", "rnn_relu"};
  if (!node->kind().is_aten()) return false;
  const std::string name = node->kind().toUnqualString();
  if (packs(node) || name == "_pad_packed_sequence") return true;
  return recurrent.count(name) && node->schema().argumentIndexWithName("batch_sizes");
}

Stack runOnPackedSteps(const Node* node, Stack inputs, bool second) {
  if (packs(node) && inputs.at(1).toTensor().is_meta()) {
    const at::Tensor x = inputs[0].toTensor();
    const int64_t most = x.size(inputs.at(2).toBool() ? 1 : 0);
    inputs[1] = exampleLengths(inputs[1].toTensor(), most, second);
  }
  for (c10::IValue& value : inputs) value = onCpu(value);
  node->getOperation()(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!packs(node) || i != 1) inputs[i] = inputs[i].toTensor().to(at::kMeta);
  }
  return inputs;
}

}  // namespace chorus
