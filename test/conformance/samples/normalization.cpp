#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples normalization() {
  return {
      // Statistics are moved by the op, not trained: '=' has no gradient.
      "_native_batch_norm_legit_functional(f32[N,4,4,4], f32[4], f32[4], f32[4]=, f32[4]=, true, "
      "0.1, 1e-5) ; shared",
      "_native_batch_norm_legit_functional(f32[N,4], f32[4], f32[4], f32[4]=, f32[4]=, true, 0.1, "
      "1e-5) ; shared",
      "_native_batch_norm_legit_functional(f32[N,3,5], none, none, f32[3]=, f32[3]=, true, 0.3, "
      "1e-3) ; shared",
      "_native_batch_norm_legit_functional(f32[N,2,2,2,2], f32[2], f32[2], f32[2]=, f32[2]=, true, "
      "0.1, 1e-5) ; shared",
      "batch_norm(f32[N,4,4,4], f32[4], f32[4], f32[4]=, f32[4]+=, false, 0.1, 1e-5, false)",
      "batch_norm(f32[N,4], f32[4], f32[4], f32[4]=, f32[4]+=, false, 0.1, 1e-5, true)",
      "batch_norm(f32[N,4,4], none, none, f32[4]=, f32[4]+=, false, 0.1, 1e-5, false)",
      "batch_norm(f32[N,4,4,4], f32[4], f32[4], none, none, true, 0.1, 1e-5, false)",
      "batch_norm(f32[N,2,2,2,2], none, none, none, none, true, 0.1, 1e-3, false)",
      "instance_norm(f32[N,4,4,4], f32[4], f32[4], none, none, true, 0.1, 1e-5, false)",
      "instance_norm(f32[N,4,4], none, none, none, none, true, 0.1, 1e-5, false)",
      "instance_norm(f32[N,4,4,4], f32[4], f32[4], f32[4]=, f32[4]+=, false, 0.1, 1e-5, false)",
      "layer_norm(f32[N,4], [4], f32[4], f32[4])",
      "layer_norm(f32[N,4,4], [4], f32[4], f32[4], 1e-3)",
      "layer_norm(f32[N,4,4,4], [4,4], f32[4,4], f32[4,4])",
      "layer_norm(f32[4,4], [4,4], f32[4,4], f32[4,4])",
      "layer_norm(f32[N,4,4], [4], f32[4], none)",
      "layer_norm(f32[N,4], [4], none, none)",
      "rms_norm(f32[N,4,4], [4], f32[4])",
      "rms_norm(f32[N,4,4], [4,4], f32[4,4], 1e-5)",
      "rms_norm(f32[N,4], [4], none)",
      "group_norm(f32[N,4,4,4], 2, f32[4], f32[4])",
      "group_norm(f32[N,4], 1, f32[4], f32[4])",
      "group_norm(f32[N,4,4], 4, none, none)",
      "group_norm(f32[N,6,3,2], 3, f32[6], f32[6], 1e-3)",
  };
}

}  // namespace chorus::conformance::samples
