// The two layouts of a stacked value with a batch dim, and the marker ops between them.
//
//   K first         [K,N,C,...]     what batching rules take and give
//   channel-merged  [N,(K C),...]   what grouped ops (convolution, pooling, normalisation) work on
//
//   chorus::merge(Tensor x) -> Tensor            [K,N,C,...] -> [N,(K C),...]
//   chorus::unmerge(Tensor x, int k) -> Tensor   [N,(K C),...] -> [K,N,C,...]
//
// Both are pure and run in the interpreter like any op, so a graph with markers can be executed and
// compared. unmerge is a view; merge copies, unless its operand is such a view. passes/layout.cpp
// removes the pairs that cancel, passes/lower_layout.cpp replaces the rest by aten ops: no saved
// graph contains a marker.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace chorus {

/// Makes the marker ops known to LibTorch. Call it before a graph with markers is built or run;
/// again is harmless.
void registerMarkerOps();

/// c10::Symbol "chorus::merge" and "chorus::unmerge".
c10::Symbol mergeSymbol();
c10::Symbol unmergeSymbol();

}  // namespace chorus
