#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples subscripted_writes() {
  return {
      "index_put(f32[4,4], {i64[3]<4}, f32[3,4], true)",
      "index_put(f32[4,4], {i64[1]<4}, f32[4])",
      "index_put(f32[4,4], {none, i64[1]<4}, f32[4,1])",
      "index_put(f32[4,4,4], {none, i64[3]<4, i64[3]<4}, f32[4,3], true)",
      "index_put(f32[4,4,4], {i64[3]<4, none, i64[3]<4}, f32[3,4], true)",
      "index_put(f32[4,4], {bool[4,4]}, f32[])",
      "index_put(f32[4,4], {bool[4]}, f32[])",
      "_unsafe_index_put(f32[4,4], {i64[3]<4}, f32[], true)",
      "index_fill(f32[4,4], 0, i64[3]<4, 2.0)",
      "index_fill(f32[4,4], 1, i64[3]<4, f32[])",
      "take(f32[4,4], i64[4]<16)",
      "take(f32[4,4], i64[]<16)",
      "put(f32[4,4], i64[1]<16, f32[1])",
      "put(f32[4,4], i64[3]<16, f32[3], true)",
      "take_along_dim(f32[4,4], i64[4,4]<4, 0)",
      "take_along_dim(f32[4,4], i64[4]<16)",
      "masked_scatter(f32[4,4], bool[4,4], f32[16])",
      "masked_scatter(f32[4,4], bool[4], f32[16])",
      "select_scatter(f32[4,4], f32[4], 0, 1)",
      "slice_scatter(f32[4,4], f32[4,2], 1, 0, 2)",
      "diagonal_scatter(f32[4,4], f32[4])",
      "embedding_renorm(f32[4,4], i64[3]<4, 1.0, 2.0)",
      "index_reduce(f32[4,4], 0, i64[3]<4, f32[3,4], 'amax')",
      "index_put(f32[4,4], {bool[4,4]}, f32[], true)",
      "index_put(f32[4,4,4], {bool[4,4]}, f32[4], true)",
      "index_put(f32[4,4,4], {bool[4,4]}, f32[1,4])",
      "index_put(f32[4,4,4], {none, bool[4]}, f32[4])",
      "index_put(f32[4,4,4], {none, bool[4]}, f32[4,1,4])",
      "index_put(f32[4,4,4], {none, bool[4]}, f32[1,1,4], true)",
      "index_put(f32[4,4,4], {none, bool[4,4]}, f32[4,1])",
      "index_put(f32[N,4,4], {none, none, bool[4]}, f32[4,1])",
      "index_put(f32[4,4,4], {bool[4], i64[1]<4}, f32[4]) ; mixed",
      "index_put(f32[4,4,4], {bool[4], none, i64[1]<4}, f32[4]) ; mixed",
      "index_put(f32[4,4,4], {none, bool[4], i64[1]<4}, f32[4,1], true) ; mixed",
      "index_put(f32[4,4,4], {none, i64[1]<4, bool[4]}, f32[4,1], true) ; mixed",
      "_unsafe_index_put(f32[4,4], {bool[4]}, f32[])",
  };
}

}  // namespace chorus::conformance::samples
