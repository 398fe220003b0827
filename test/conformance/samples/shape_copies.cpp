#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples shape_copies() {
  return {
      "view_copy(f32[4,4], [4,2,2])",
      "_unsafe_view(f32[4,4], [16])",
      "expand_copy(f32[4], [4,4])",
      "squeeze_copy(f32[4,1,4])",
      "squeeze_copy(f32[4,1,4], 1)",
      "sum_to_size(f32[4,4,4], [4,1])",
      "sum_to_size(f32[4,4], [4])",
      "atleast_1d(f32[])",
      "atleast_2d(f32[4])",
      "atleast_2d(f32[])",
      "atleast_3d(f32[4])",
      "atleast_3d(f32[4,4])",
      "atleast_3d(f32[])",
      "select_copy(f32[4,4], 0, 1)",
      "slice_copy(f32[4,4], 1, 0, 2)",
      "unsqueeze_copy(f32[4,4], 1)",
      "unfold_copy(f32[4,4], 1, 2, 1)",
      "transpose_copy(f32[4,4,4], 0, 1)",
      "diagonal_copy(f32[4,4])",
      "permute_copy(f32[4,4,4], [2,0,1])",
      "t_copy(f32[4,4])",
      "narrow_copy(f32[4,4], 0, 1, 2)",
      "msort(f32[4,4])",
      "msort(f32[])",
      "diagflat(f32[4])",
      "diagflat(f32[2,2], 1)",
      "_safe_softmax(f32[4,4], 0)",
      "_softmax(f32[4,4], 0, false)",
      "_log_softmax(f32[4,4], 1, false)",
      "_softmax_backward_data(f32[4,4], f32[4,4], 0, 6)",
      "_log_softmax_backward_data(f32[4,4], f32[4,4], 1, 6)",
  };
}

}  // namespace chorus::conformance::samples
