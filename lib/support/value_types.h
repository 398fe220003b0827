// What a value's type tells about its shape.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <optional>
#include <string>

namespace chorus {

bool isTensor(const torch::jit::Value* value);

/// Rank of a tensor value; nullopt where the type does not say, and for other values.
std::optional<int64_t> rankOf(const torch::jit::Value* value);

/// A tensor type with the dtype of `like` and this rank, both where they are known; no sizes.
c10::TypePtr typeOfRank(const torch::jit::Value* like, std::optional<int64_t> rank);

/// The value of an argument where it is a constant; nullopt also where the op has no such argument.
std::optional<c10::IValue> constantArgument(const torch::jit::Node* node, const std::string& name);

}  // namespace chorus
