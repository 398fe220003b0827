#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples statistics() {
  return {
      "quantile(f32[4,4], 0.3)",
      "quantile(f32[4,4], 0.3, 1, true)",
      "nanquantile(f32[4,4], 0.5, 0)",
      "bucketize(f32[4,4], f32[1])",
      "searchsorted(f32[1], f32[4,4])",
      "searchsorted(f32[4,1], f32[4,4])",
      "isin(i64[4,4]<4, i64[4]<4)",
      "isin(i64[4,4]<4, i64[2]<4, invert=true)",
      "trapezoid(f32[4,4])",
      "trapezoid(f32[4,4], f32[4], dim=0)",
      "trapz(f32[4,4], f32[4,4], dim=0)",
      "cumulative_trapezoid(f32[4,4], f32[4])",
  };
}

}  // namespace chorus::conformance::samples
