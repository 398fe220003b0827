#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples products() {
  return {
      "tensordot(f32[4,4,4], f32[4,4], [0,2], [1,0])",
      "tensordot(f32[4,4], f32[4], [1], [0])",
      "inner(f32[4,4], f32[4,4])",
      "inner(f32[4], f32[4])",
      "inner(f32[], f32[4])",
      "kron(f32[4,4], f32[4,4])",
      "kron(f32[4], f32[4,4])",
      "vdot(f32[4], f32[4])",
      "vdot(c64[4], c64[4])",
      "trace(f32[4,4])",
      "addbmm(f32[4,4], f32[4,4,4], f32[4,4,4])",
      "addbmm(f32[4], f32[4,4,4], f32[4,4,4], beta=0.5, alpha=2.0)",
      "addbmm(f32[4,4], f32[4,4,4], f32[4,4,4], beta=0) ; shared",
      "bilinear(f32[N,4], f32[N,4], f32[4,4,4], f32[4])",
      "bilinear(f32[4], f32[4], f32[4,4,4], none)",
      "bilinear(f32[N,4,4], f32[N,4,4], f32[4,4,4], f32[4])",
      "linalg_multi_dot({f32[4,4], f32[4,4], f32[4,4]})",
      "linalg_multi_dot({f32[4], f32[4,4], f32[4]})",
      "chain_matmul({f32[4,4], f32[4,4]})",
      "_trilinear(f32[4,4], f32[4,4,4], f32[4,4], [1,3], [0], [1,2], [2,3])",
      "_trilinear(f32[4,3], f32[5,3,2], f32[4,2], [1,3], [0], [1,2], [2,3], 1)",
  };
}

}  // namespace chorus::conformance::samples
