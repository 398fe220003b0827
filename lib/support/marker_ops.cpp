#include "lib/support/marker_ops.h"

#include <torch/csrc/jit/runtime/operator.h>

#include <mutex>

#include "lib/support/fault.h"

namespace chorus {
namespace {

using torch::jit::Operator;
using torch::jit::Stack;

void merge(Stack& stack) {
  const at::Tensor x = torch::jit::pop(stack).toTensor();
  if (fault("merge_k_innermost")) {
    torch::jit::push(stack, x.transpose(0, 1).transpose(1, 2).flatten(1, 2));
    return;
  }
  // [K,N,C,...] -> [N,K,C,...] -> [N,(K C),...]
  torch::jit::push(stack, x.transpose(0, 1).flatten(1, 2));
}

void unmerge(Stack& stack) {
  const int64_t k = torch::jit::pop(stack).toInt();
  const at::Tensor x = torch::jit::pop(stack).toTensor();
  // [N,(K C),...] -> [N,K,C,...] -> [K,N,C,...]
  torch::jit::push(stack, x.unflatten(1, {k, -1}).transpose(0, 1));
}

}  // namespace

void registerMarkerOps() {
  static std::once_flag once;
  std::call_once(once, [] {
    const auto pure = c10::AliasAnalysisKind::FROM_SCHEMA;
    // unmerge gives a view, which matters to nobody: these graphs have no mutation.
    torch::jit::registerOperator(Operator("chorus::merge(Tensor x) -> Tensor", merge, pure));
    torch::jit::registerOperator(
        Operator("chorus::unmerge(Tensor x, int k) -> Tensor", unmerge, pure));
  });
}

c10::Symbol mergeSymbol() {
  static const c10::Symbol symbol = c10::Symbol::fromQualString("chorus::merge");
  return symbol;
}

c10::Symbol unmergeSymbol() {
  static const c10::Symbol symbol = c10::Symbol::fromQualString("chorus::unmerge");
  return symbol;
}

}  // namespace chorus
