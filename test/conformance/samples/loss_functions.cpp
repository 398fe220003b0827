#include "test/conformance/sample.h"

namespace chorus::conformance::samples {

Samples loss_functions() {
  return {
      "mse_loss(f32[N,4], f32[N,4], 0)",
      "mse_loss(f32[N,4], f32[N,4], 1)",
      "mse_loss(f32[N,4], f32[N,4], 2)",
      "l1_loss(f32[N,4], f32[N,4], 0)",
      "l1_loss(f32[N,4], f32[N,4], 1)",
      "l1_loss(f32[N,4], f32[N,4], 2)",
      "smooth_l1_loss(f32[N,4], f32[N,4], 0)",
      "smooth_l1_loss(f32[N,4], f32[N,4], 1)",
      "smooth_l1_loss(f32[N,4], f32[N,4], 2)",
      "huber_loss(f32[N,4], f32[N,4], 0)",
      "huber_loss(f32[N,4], f32[N,4], 1)",
      "huber_loss(f32[N,4], f32[N,4], 2)",
      "soft_margin_loss(f32[N,4], f32[N,4]=, 0)",
      "soft_margin_loss(f32[N,4], f32[N,4]=, 1)",
      "soft_margin_loss(f32[N,4], f32[N,4]=, 2)",
      "mse_loss(f32[], f32[], 1)",
      "binary_cross_entropy(f32[N,4]~, f32[N,4]~, none, 1) ; no-poison",
      "binary_cross_entropy(f32[N,4]~, f32[N,4]~, f32[4]+=, 2) ; no-poison",
      "binary_cross_entropy_with_logits(f32[N,4], f32[N,4]~, none, none, 1)",
      "binary_cross_entropy_with_logits(f32[N,4], f32[N,4]~, f32[4]+=, f32[4]+=, 1)",
      "kl_div(f32[N,4], f32[N,4]+, 1)",
      "kl_div(f32[N,4], f32[N,4], 2, log_target=true)",
      "poisson_nll_loss(f32[N,4], f32[N,4]+, true, false, 1e-8, 1)",
      "poisson_nll_loss(f32[N,4], f32[N,4]+, true, true, 1e-8, 2)",
      "hinge_embedding_loss(f32[N,4], f32[N,4]=, 1.0, 1)",
      "margin_ranking_loss(f32[N], f32[N], f32[N]=, 0.5, 1)",
      "multi_margin_loss(f32[N,4], i64[N]<4, 1, 1.0, none, 1)",
      "multi_margin_loss(f32[4], i64[]<4, 1, 1.0, none, 1)",
      "multi_margin_loss(f32[N,4], i64[N]<4, 1, 1.0, f32[4]+=, 2) ; mixed",
      "multilabel_margin_loss(f32[N,4], i64[N,4]<4, 1)",
      "multilabel_margin_loss(f32[4], i64[4]<4, 0)",
      "cosine_embedding_loss(f32[N,4], f32[N,4], f32[N]=, 0.1, 1)",
      "cosine_embedding_loss(f32[4], f32[4], f32[]=, 0.1, 0)",
      "triplet_margin_loss(f32[N,4], f32[N,4], f32[N,4], 1.0, 2.0, 1e-6, false, 1)",
      "triplet_margin_loss(f32[N,4], f32[N,4], f32[N,4], 1.0, 2.0, 1e-6, true, 2)",
  };
}

}  // namespace chorus::conformance::samples
