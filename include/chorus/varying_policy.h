// Which arguments of which ops may have one value per member. Data: the one place that the prover,
// the checker and the rewriting of such ops (lib/batching/varying.cpp) read. What is not listed is
// invariant: it decides shapes, wiring or what is computed, and members that differ in it are
// refused (fusion contract C4).
#pragma once

#include <string_view>

namespace chorus {

/// The arguments `arguments` (names of the schema, one blank between them) of all overloads of `op`
/// whose results are tensors.
struct VaryingPolicy {
  std::string_view op;
  std::string_view arguments;
};

inline constexpr VaryingPolicy kVaryingPolicy[] = {
    // normalisation
    {"aten::_native_batch_norm_legit_functional", "momentum eps"},
    {"aten::batch_norm", "momentum eps"},
    {"aten::instance_norm", "momentum eps"},
    {"aten::layer_norm", "eps"},
    {"aten::group_norm", "eps"},
    {"aten::rms_norm", "eps"},
    // dropout
    {"aten::dropout", "p"},
    {"aten::feature_dropout", "p"},
    {"aten::alpha_dropout", "p"},
    {"aten::feature_alpha_dropout", "p"},
    // draws
    {"aten::rrelu", "lower upper"},
    {"aten::bernoulli", "p"},
    {"aten::uniform", "from to"},
    {"aten::normal", "mean std"},
    {"aten::normal_functional", "mean std"},
    {"aten::cauchy", "median sigma"},
    {"aten::exponential", "lambd"},
    // activations
    {"aten::leaky_relu", "negative_slope"},
    {"aten::elu", "alpha scale input_scale"},
    {"aten::celu", "alpha"},
    {"aten::softplus", "beta threshold"},
    {"aten::hardtanh", "min_val max_val"},
    {"aten::threshold", "threshold value"},
    {"aten::hardshrink", "lambd"},
    {"aten::softshrink", "lambd"},
    {"aten::clamp", "min max"},
    {"aten::clamp_min", "min"},
    {"aten::clamp_max", "max"},
    {"aten::scaled_dot_product_attention", "scale"},
    // arithmetic
    {"aten::add", "other alpha"},
    {"aten::sub", "other alpha"},
    {"aten::rsub", "other alpha"},
    {"aten::mul", "other"},
    {"aten::div", "other"},
    {"aten::floor_divide", "other"},
    {"aten::remainder", "other"},
    {"aten::fmod", "other"},
    {"aten::pow", "self exponent"},
    {"aten::lerp", "weight"},
    {"aten::addcmul", "value"},
    {"aten::addcdiv", "value"},
    {"aten::addmm", "beta alpha"},
    {"aten::baddbmm", "beta alpha"},
    {"aten::eq", "other"},
    {"aten::ne", "other"},
    {"aten::lt", "other"},
    {"aten::le", "other"},
    {"aten::gt", "other"},
    {"aten::ge", "other"},
    // filling
    {"aten::masked_fill", "value"},
    {"aten::constant_pad_nd", "value"},
    {"aten::pad", "value"},
    {"aten::full", "fill_value"},
    {"aten::full_like", "fill_value"},
    {"aten::new_full", "fill_value"},
    {"aten::fill", "value"},
    {"aten::index_fill", "value"},
    {"aten::scatter", "value"},
    {"aten::linspace", "start end"},
    {"aten::logspace", "start end base"},
    {"aten::where", "self other"},
    {"aten::nan_to_num", "nan posinf neginf"},
    // products and sums
    {"aten::addmv", "beta alpha"},
    {"aten::addr", "beta alpha"},
    {"aten::addbmm", "beta alpha"},
    {"aten::index_add", "alpha"},
    {"aten::float_power", "self exponent"},
    {"aten::copysign", "other"},
    {"aten::xlogy", "self other"},
    {"aten::special_xlog1py", "self other"},
    {"aten::special_zeta", "self other"},
    {"aten::logit", "eps"},
    {"aten::trapezoid", "dx"},
    {"aten::trapz", "dx"},
    {"aten::cumulative_trapezoid", "dx"},
    {"aten::fake_quantize_per_tensor_affine", "scale"},
    // distances, norms of vectors, statistics
    {"aten::cosine_similarity", "eps"},
    {"aten::pairwise_distance", "p eps"},
    {"aten::cdist", "p"},
    {"aten::pdist", "p"},
    {"aten::dist", "p"},
    {"aten::norm", "p"},
    {"aten::renorm", "p maxnorm"},
    {"aten::linalg_vector_norm", "ord"},
    {"aten::isclose", "rtol atol"},
    {"aten::bucketize", "self"},
    {"aten::searchsorted", "self"},
    {"aten::quantile", "q"},
    {"aten::nanquantile", "q"},
    {"aten::std", "correction"},
    {"aten::var", "correction"},
    {"aten::linalg_pinv", "rcond rtol atol"},
    {"aten::pinverse", "rcond"},
    // losses inside the graph
    {"aten::cross_entropy_loss", "label_smoothing"},
    {"aten::smooth_l1_loss", "beta"},
    {"aten::huber_loss", "delta"},
    {"aten::hinge_embedding_loss", "margin"},
    {"aten::cosine_embedding_loss", "margin"},
    {"aten::margin_ranking_loss", "margin"},
    {"aten::triplet_margin_loss", "margin p eps"},
    {"aten::multi_margin_loss", "p margin"},
    {"aten::poisson_nll_loss", "eps"},
};

/// Numbers, not whole ones by their type, that are the same in all members all the same, and why.
struct InvariantNumbers {
  std::string_view ops;  ///< names without "aten::", one blank between them
  std::string_view reason;
};

inline constexpr InvariantNumbers kInvariantNumbers[] = {
    {"arange upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d "
     "_upsample_nearest_exact2d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d "
     "upsample_trilinear3d upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa",
     "they decide the result's shape"},
    {"lstm gru rnn_tanh rnn_relu scaled_dot_product_attention native_dropout "
     "native_dropout_backward geometric",
     "with another number the op draws another number of times, or is another op"},
    {"remainder bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift __and__ "
     "__or__ __xor__ __lshift__ __rshift__ isin",
     "bits and sets of whole numbers: constants of an algorithm, not of a network's size or rate"},
    {"special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v "
     "special_chebyshev_polynomial_w special_shifted_chebyshev_polynomial_t "
     "special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v "
     "special_shifted_chebyshev_polynomial_w special_hermite_polynomial_h "
     "special_hermite_polynomial_he special_laguerre_polynomial_l special_legendre_polynomial_p",
     "the degree of a polynomial decides how many terms are computed"},
    {"linalg_cond linalg_matrix_norm linalg_norm linalg_matrix_rank",
     "another order is another algorithm (singular values, sums of rows)"},
    {"_pad_packed_sequence pad_sequence",
     "the number stands where a sequence has ended: what reads it there leaves it out again"},
    {"embedding_renorm log_normal std_mean var_mean",
     "not met in networks: the parts of which they are made vary"},
};

}  // namespace chorus
