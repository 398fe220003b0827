#include "lib/support/value_types.h"

#include <torch/csrc/jit/ir/constants.h>

namespace chorus {

using torch::jit::Value;

bool isTensor(const Value* value) { return value->type()->isSubtypeOf(*c10::TensorType::get()); }

std::optional<int64_t> rankOf(const Value* value) {
  const auto type = value->type()->cast<c10::TensorType>();
  if (!type) return std::nullopt;
  const auto rank = type->dim();
  if (!rank) return std::nullopt;
  return static_cast<int64_t>(*rank);
}

c10::TypePtr typeOfRank(const Value* like, std::optional<int64_t> rank) {
  const auto type = like->type()->cast<c10::TensorType>();
  const auto dtype = type ? type->scalarType() : std::nullopt;
  c10::TensorTypePtr made = c10::TensorType::get();
  if (rank) made = made->withDim(static_cast<size_t>(*rank));
  if (dtype) made = made->withScalarType(dtype);
  return made;
}

std::optional<c10::IValue> constantArgument(const torch::jit::Node* node, const std::string& name) {
  const auto index = node->schema().argumentIndexWithName(name);
  if (!index) return std::nullopt;
  return torch::jit::toIValue(node->input(static_cast<size_t>(*index)));
}

}  // namespace chorus
