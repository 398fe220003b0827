#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples factories() {
  return {
      "zeros_like(f32[4,4])",
      "ones_like(f32[N,4])",
      "ones_like(f32[4], dtype=i64)",
      "full_like(f32[4,4], 2.5)",
      "full_like(i64[], 2)",
      "empty_like(f32[4,4]) ; shapes",
      "zeros_like(f32[4,4,4,4], memory_format=2)",
      "new_zeros(f32[4,4], [4,3]) ; shared",
      "new_zeros(f32[N,4], [@0.0,3]) ; shared",
      "new_ones(f32[4], [4], dtype=f64) ; shared",
      "new_full(f32[4], [4,4], 2.5) ; shared",
      "new_empty(f32[4], [4]) ; shared shapes",
      "fill(f32[4,4], 2)",
      "fill(f32[4,4], f32[])",
      "fill(f32[4,4], f64[])",
      "size(f32[4,4], 0) ; shared",
      "size(f32[N,3], 0) ; shared",
      "size(f32[4,3], -1) ; shared",
      "size(f32[N,3]) ; shared",
      "numel(f32[N,3]) ; shared",
      "dim(f32[4,4]) ; shared",
      "len(f32[N,4]) ; shared",
      "is_floating_point(f32[4]) ; shared",
      "is_complex(f32[4]) ; shared",
      "prim::dtype(f32[4]) ; shared",
      "prim::device(f32[4]) ; shared",
      "prim::layout(f32[4]) ; shared",
      "prim::is_cuda(f32[4]) ; shared",
  };
}

}  // namespace chorus::conformance::samples
