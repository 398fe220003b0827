#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples conv_tbc() {
  return {
      "conv_tbc(f32[4,N,4], f32[3,4,4], f32[4], 1)",
      "conv_tbc(f32[6,4,4], f32[4,4,3], f32[3])",
      "conv_tbc(f32[5,2,3], f32[2,3,4], f32[4], 2)",
  };
}

}  // namespace chorus::conformance::samples
