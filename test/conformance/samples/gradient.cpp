#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples gradient() {
  return {
      "gradient(f32[4,4])",
      "gradient(f32[4,4], dim=0)",
      "gradient(f32[4,4], dim=[-1,0])",
      "gradient(f32[4,4], spacing=2.0, dim=1)",
      "gradient(f32[4,4,4], spacing=2.0, dim=[0,2], edge_order=2)",
      "gradient(f32[4])",
      "gradient(f32[4,4], spacing={f32[4], f32[4]})",
      "gradient(f32[4,3,4], spacing={f32[4]}, dim=-1, edge_order=2)",
      "gradient(f32[4,3,4], spacing={f32[4], f32[4]}, dim=[2,0], edge_order=2)",
  };
}

}  // namespace chorus::conformance::samples
