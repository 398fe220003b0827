#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples embedding_bag() {
  return {
      "embedding_bag(f32[4,4], i64[4]<4, i64[2]<1, false, 0) ; per-member",
      "embedding_bag(f32[4,4], i64[4]<4, i64[2]<1, false, 1) ; per-member",
      "embedding_bag(f32[4,4], i64[4]<4, i64[2]<1, false, 2) ; per-member",
      "embedding_bag(f32[4,4], i64[4]<4, i64[2]<1, false, 0, false, f32[4]) ; per-member",
      "embedding_bag(f32[4,4], i64[4]<4, i64[2]<1, false, 0, false, none, false, 2) ; per-member",
      "embedding_bag(f32[4,4], i64[4]<4, i64[1]<1, true, 0, false, none, false, none) ; per-member",
  };
}

}  // namespace chorus::conformance::samples
