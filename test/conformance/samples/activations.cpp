#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples activations() {
  return {
      "prelu(f32[4,4], f32[4])",   "prelu(f32[N,4,4,4], f32[4])", "prelu(f32[4,4,4], f32[1])",
      "prelu(f32[4,4], f32[])",    "prelu(f32[4], f32[1])",       "prelu(f32[], f32[])",
      "rrelu(f32[4,4], 0.1, 0.3)",
  };
}

}  // namespace chorus::conformance::samples
