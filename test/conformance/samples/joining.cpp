#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples joining() {
  return {
      "hstack({f32[4], f32[4]})",
      "hstack({f32[], f32[]})",
      "hstack({f32[4,4], f32[4,2]})",
      "vstack({f32[4], f32[4,4]})",
      "row_stack({f32[4], f32[4]})",
      "dstack({f32[4], f32[4]})",
      "dstack({f32[4,4], f32[4,4]})",
      "dstack({f32[4,4,4], f32[4,4,2]})",
      "column_stack({f32[4], f32[4,4]})",
      "cartesian_prod({f32[4], f32[4]})",
      "cartesian_prod({f32[4], f32[4], f32[2]})",
      "block_diag({f32[4,4], f32[4,2], f32[4]})",
      "combinations(f32[4], 2)",
      "combinations(f32[4], 3, true)",
      "hsplit(f32[4,4], 2)",
      "hsplit(f32[4], [1,2])",
      "vsplit(f32[4,4], 2)",
      "dsplit(f32[4,4,4], 2)",
      "broadcast_tensors({f32[4,4], f32[4]})",
      "meshgrid({f32[4], f32[4]})",
      "unsafe_split_with_sizes(f32[4,4], [1,3], 1)",
      "split_copy(f32[4,4], 2, 1)",
      "split_with_sizes_copy(f32[4,4], [1,3])",
      "unbind_copy(f32[4,4], 1)",
      "pad_sequence({f32[4,4], f32[2,4], f32[3,4]})",
      "pad_sequence({f32[4,4], f32[2,4]}, true, 0.5)",
      "pad_sequence({f32[4], f32[2]}, true, 0.5, 'left')",
  };
}

}  // namespace chorus::conformance::samples
