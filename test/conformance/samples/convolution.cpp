#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
Samples convolution() {
  return {
      "convolution(f32[N,4,4,4], f32[4,4,1,1], f32[4], [1,1], [0,0], [1,1], false, [0,0], 1)",
      "convolution(f32[N,4,4,4], f32[4,4,3,3], none, [1,1], [1,1], [1,1], false, [0,0], 1)",
      "convolution(f32[N,3,7,6], f32[5,3,3,2], f32[5], [2,1], [1,0], [1,2], false, [0,0], 1)",
      "convolution(f32[N,4,4,4], f32[4,1,3,3], f32[4], [1,1], [1,1], [1,1], false, [0,0], 4)",
      "convolution(f32[N,4,5,5], f32[8,2,3,3], f32[8], [1,1], [1,1], [2,2], false, [0,0], 2)",
      "convolution(f32[N,4,4], f32[4,4,3], f32[4], [1], [1], [1], false, [0], 1)",
      "convolution(f32[N,4,6], f32[4,2,3], f32[4], [2], [1], [1], false, [0], 2)",
      "convolution(f32[N,2,4,4,4], f32[4,2,2,2,2], f32[4], [1,1,1], [0,0,0], [1,1,1], false, "
      "[0,0,0], 1)",
      "convolution(f32[N,4,4,4,4], f32[4,1,2,2,2], none, [1,1,1], [1,1,1], [1,1,1], false, "
      "[0,0,0], 4)",
      "convolution(f32[N,4,4,4], f32[4,4,2,2], f32[4], [1,1], [0,0], [1,1], true, [0,0], 1)",
      "convolution(f32[N,3,4,4], f32[3,5,3,3], f32[5], [2,2], [1,1], [1,1], true, [1,1], 1)",
      "convolution(f32[N,4,4,4], f32[4,3,3,3], f32[6], [2,1], [1,1], [1,1], true, [1,0], 2)",
      "convolution(f32[N,4,4], f32[4,4,3], none, [2], [1], [1], true, [1], 1)",
      "convolution(f32[N,4,4], f32[4,1,3], f32[4], [1], [1], [1], true, [0], 4)",
      "convolution(f32[N,2,3,3,3], f32[2,2,2,2,2], f32[2], [1,1,1], [0,0,0], [1,1,1], true, "
      "[0,0,0], 1)",
      "convolution(f64[N,4,4,4], f64[4,4,3,3], f64[4], [1,1], [1,1], [1,1], false, [0,0], 1)",
  };
}

}  // namespace chorus::conformance::samples
