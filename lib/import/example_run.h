// Runs single ops on example tensors: meta tensors, so that only shapes and dtypes are computed.
#pragma once

#include <ATen/core/stack.h>

#include "chorus/member.h"

namespace chorus {

/// Runs the op of `node` on `inputs`; returns its outputs. Devices among the inputs become the meta
/// device; an op without a meta kernel runs on zeros. An op whose sizes depend on data runs on
/// other data in the `second` example, so that its sizes differ between the two. Throws c10::Error
/// as the op does.
torch::jit::Stack runOnExamples(const Node* node, torch::jit::Stack inputs, bool second = false);

/// Tensors of so few numbers keep their contents while code is read: networks compute sizes in
/// tensors.
inline bool isSmall(const at::Tensor& tensor) { return tensor.numel() <= 1024; }

/// What is known of one example's results only is known of neither's.
void knowBoth(torch::jit::Stack& first, torch::jit::Stack& second);

/// `slot` as an example: with its contents where it is a small constant.
at::Tensor exampleOf(const TensorSlot& slot);

/// What an op's failure says, in one line.
std::string failureText(const std::exception& failure);

/// The tensor type that fits both examples: dims that differ are unknown.
c10::TensorTypePtr typeOf(const at::Tensor& first, const at::Tensor& second);

/// An example of this spec with `n` in place of N, on the meta device.
at::Tensor exampleOf(const InputSpec& spec, int64_t n);

}  // namespace chorus
