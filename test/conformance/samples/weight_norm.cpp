#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples weight_norm() {
  return {
      "_weight_norm(f32[4,4], f32[4,1], 0)",
      "_weight_norm(f32[4,4], f32[1,4], 1)",
      "_weight_norm(f32[4,2,3], f32[4,1,1], 0)",
      "_weight_norm(f32[4,2,3], f32[1,1,3], 2)",
      "_weight_norm(f32[4,4], f32[], -1)",
  };
}

}  // namespace chorus::conformance::samples
