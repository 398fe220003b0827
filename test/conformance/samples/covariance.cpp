#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples covariance() {
  return {
      "cov(f32[4,4])",
      "cov(f32[4])",
      "cov(f32[])",
      "cov(i64[4,4])",
      "cov(f32[4,4], correction=0)",
      "cov(f32[N,4])",
      "cov(f32[4,4], fweights=i64[4]+)",
      "cov(f32[4,4], aweights=f32[4]+) ; no-poison",
      "cov(f32[4,4], correction=0, fweights=i64[4]+, aweights=f32[4]+) ; no-poison",
      "cov(f32[3,4], correction=2, fweights=i64[4]+, aweights=f32[4]+) ; no-poison",
      "cov(f32[4], fweights=i64[4]+, aweights=f32[4]+) ; no-poison",
      "cov(f32[4,4], correction=9)",
      "corrcoef(f32[4,4])",
      "corrcoef(f32[N,4])",
      "corrcoef(f64[3,4])",
      "corrcoef(f32[4])",
  };
}

}  // namespace chorus::conformance::samples
