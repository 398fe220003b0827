#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples vander() {
  return {
      "vander(f32[4])",    "vander(f32[4], 3)", "vander(f32[4], 6, true)",
      "vander(f32[4], 1)", "vander(i64[4], 3)",
  };
}

}  // namespace chorus::conformance::samples
