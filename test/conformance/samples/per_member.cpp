#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples per_member() {
  return {
      "median(f32[4,4]) ; per-member",
      "linspace(f32[], f32[], 4) ; per-member",
  };
}

}  // namespace chorus::conformance::samples
