#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples distances() {
  return {
      "cdist(f32[4,4], f32[4,4], 2.0)",
      "cdist(f32[N,4,4], f32[4,4], 1.0)",
      "cdist(f32[4,4], f32[4,4,4], 2.0)",
      "_euclidean_dist(f32[4,4], f32[4,4])",
      "pairwise_distance(f32[N,4], f32[N,4])",
      "pairwise_distance(f32[N,4], f32[4], 1.0, 1e-6, true)",
      "cosine_similarity(f32[N,4], f32[N,4], 1)",
      "cosine_similarity(f32[4,4,4], f32[4,4], 0)",
      "linalg_vecdot(f32[4,4], f32[4], dim=-1)",
      "linalg_cross(f32[4,3], f32[4,3], dim=1)",
      "cross(f32[4,3], f32[4,3])",
      "cross(f32[4,3], f32[4,3], 1)",
      "dist(f32[4,4], f32[4], 2)",
      "dist(f32[], f32[], 2)",
      "pdist(f32[4,4], 2.0)",
      "pdist(f32[N,4], 1.0)",
      "renorm(f32[4,4], 2, 0, 1)",
      "renorm(f32[4,4,4], 1, 1, 2)",
  };
}

}  // namespace chorus::conformance::samples
