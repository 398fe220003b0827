#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples per_member() {
  return {
      "renorm(f32[4,4], 2, 0, 1) ; per-member",
      "trace(f32[4,4]) ; per-member",
      "cross(f32[4,3], f32[4,3], 1) ; per-member",
      "msort(f32[4,4]) ; per-member",
      "cartesian_prod({f32[4], f32[4]}) ; per-member",
      "block_diag({f32[4,4], f32[4,4]}) ; per-member",
      "take(f32[4,4], i64[4]<16) ; per-member",
      "frexp(f32[4,4]) ; per-member",
      "linalg_qr(f32[4,4]) ; per-member",
  };
}

}  // namespace chorus::conformance::samples
