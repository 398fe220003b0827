// Running graphs in the interpreter, and flat lists of tensors out of what they return.
#pragma once

#include <memory>
#include <vector>

#include "chorus/member.h"

namespace chorus::conformance {

std::vector<c10::IValue> runGraph(const std::shared_ptr<Graph>& graph,
                                  const std::vector<at::Tensor>& inputs);

/// The tensors of an output: itself, the elements of a list; numbers and lists of numbers become
/// tensors.
std::vector<at::Tensor> tensorsOf(const c10::IValue& output);

/// "" or what differs: dtype, sizes, or the largest difference against `tolerance` times the scale
/// of `wanted`.
std::string difference(const at::Tensor& got, const at::Tensor& wanted, double tolerance);

/// Gradients of sum(weights * outputs) over those pairs that have one; zeros where an input has
/// none.
std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& outputs,
                                  const std::vector<at::Tensor>& weights,
                                  const std::vector<at::Tensor>& inputs);

}  // namespace chorus::conformance
