#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples unpooling() {
  return {
      "max_unpool2d(f32[N,2,2,2], i64[N,2,2,2]<4, [4,4]) ; no-poison",
      "max_unpool2d(f32[2,2,2], i64[2,2,2]<4, [4,4]) ; no-poison",
      "max_unpool3d(f32[N,2,2,2,2], i64[N,2,2,2,2]<8, [4,4,4], [2,2,2], [0,0,0]) ; no-poison",
      "im2col(f32[N,4,4,4], [2,2], [1,1], [0,0], [1,1])",
      "im2col(f32[4,4,4], [2,2], [1,1], [0,0], [1,1])",
      "col2im(f32[N,16,9], [4,4], [2,2], [1,1], [0,0], [1,1])",
      "col2im(f32[16,9], [4,4], [2,2], [1,1], [0,0], [1,1])",
      "fractional_max_pool2d(f32[N,4,4,4], [2,2], [2,2], f32[N,4,2]~=)",
      "fractional_max_pool3d(f32[N,4,4,4,4], [2,2,2], [2,2,2], f32[N,4,3]~=)",
      "max_pool2d_with_indices_backward(f32[N,2,2,2], f32[N,2,4,4], [2,2], [2,2], [0,0], [1,1], "
      "false, i64[N,2,2,2]<16)",
  };
}

}  // namespace chorus::conformance::samples
