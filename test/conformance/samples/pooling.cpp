#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples pooling() {
  return {
      "max_pool1d(f32[N,4,4], [2])",
      "max_pool1d(f32[4,4], [2], [1], [1])",
      "max_pool2d(f32[N,4,4,4], [2,2])",
      "max_pool2d(f32[N,4,7,6], [3,2], [2,1], [1,1], [1,2], true)",
      "max_pool2d(f32[4,4,4], [2])",
      "max_pool3d(f32[N,4,4,4,4], [2,2,2])",
      "max_pool3d(f32[4,4,4,4], [2], [1])",
      "max_pool1d_with_indices(f32[N,4,4], [2], [2])",
      "max_pool2d_with_indices(f32[N,4,4,4], [2,2], [1,1])",
      "max_pool2d_with_indices(f32[4,4,4], [2,2])",
      "max_pool3d_with_indices(f32[N,2,4,4,4], [2,2,2])",
      "avg_pool1d(f32[N,4,4], [2])",
      "avg_pool1d(f32[4,4], [2], [1], [1], true, false)",
      "avg_pool2d(f32[N,4,4,4], [2,2])",
      "avg_pool2d(f32[N,4,7,6], [3,2], [2,1], [1,1], true, false)",
      "avg_pool2d(f32[4,4,4], [2,2], [1,1], [0,0], false, true, 3)",
      "avg_pool3d(f32[N,4,4,4,4], [2,2,2])",
      "avg_pool3d(f32[4,4,4,4], [2,2,2], [1,1,1])",
      "adaptive_avg_pool1d(f32[N,4,4], [2])",
      "adaptive_avg_pool1d(f32[4,5], [3])",
      "adaptive_avg_pool2d(f32[N,4,4,4], [1,1])",
      "adaptive_avg_pool2d(f32[N,4,5,4], [3,2])",
      "adaptive_avg_pool2d(f32[4,4,4], [2,2])",
      "adaptive_avg_pool3d(f32[N,4,4,4,4], [1,2,3])",
      "adaptive_avg_pool3d(f32[4,4,4,4], [2,2,2])",
      "adaptive_max_pool1d(f32[N,4,4], [2])",
      "adaptive_max_pool1d(f32[4,4], [3])",
      "adaptive_max_pool2d(f32[N,4,4,4], [2,2])",
      "adaptive_max_pool2d(f32[4,5,4], [3,2])",
      "adaptive_max_pool3d(f32[N,4,4,4,4], [2,2,2])",
  };
}

}  // namespace chorus::conformance::samples
