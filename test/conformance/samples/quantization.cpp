#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples quantization() {
  return {
      "fake_quantize_per_tensor_affine(f32[N,4], 0.1, 0, -128, 127)",
      "fake_quantize_per_tensor_affine(f32[], 0.25, 3, 0, 255)",
      "fake_quantize_per_channel_affine(f32[4,4], f32[4]+=, i32[4]<4, 0, -128, 127) ; no-poison",
      "fake_quantize_per_channel_affine(f32[N,4,4], f32[4]+=, i32[4]<4, 1, -128, 127) ; no-poison",
      "fake_quantize_per_channel_affine(f32[N,4,3], f32[3]+=, i32[3]<4, 2, 0, 255) ; no-poison",
  };
}

}  // namespace chorus::conformance::samples
