#include "lib/scan/allowed_operators.h"

#include <sstream>
#include <string_view>
#include <unordered_set>

#include "chorus/scan.h"

namespace chorus {
namespace {

struct Group {
  const char* name_space;
  const char* names;  ///< separated by blanks
};

// An operator is on this list if it computes values from its operands (in place or not), or draws
// from the default generator. Files, processes, other threads, Python, storages, hooks, global
// settings and backend-specific kernels are not. New operators of LibTorch are refused until they
// are added here.
// clang-format off
constexpr Group kAllowed[] = {
    // Scalars, casts, flags.
    {"aten", R"(
Bool Complex ComplexImplicit Float FloatImplicit Int IntImplicit ScalarImplicit Size __is__
__isnot__ __not__ __round_to_zero_floordiv _get_tracing_state _infer_size _list_to_tensor
_local_scalar_dense _size_if_not_equal _tensor_to_list _unwrap_optional complex cpu cuda degrees
device divmod fabs factorial floordiv gcd get_autocast_dtype is_autocast_cpu_enabled
is_autocast_enabled is_grad_enabled is_inference is_scripting item mathremainder mode modf radians
warn)"},
    // Strings.
    {"aten", R"(
bin capitalize center chr count endswith expandtabs find format hash hex isalnum isalpha isdecimal
isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip
oct ord partition percentFormat replace rfind rindex rjust rpartition rsplit rstrip splitlines
startswith str strip swapcase title upper zfill)"},
    // Lists and dicts.
    {"aten", R"(
Delete __contains__ __derive_index __getitem__ __range_length _set_item append clear copy dict
extend get insert items keys len list pop popitem range remove reverse setdefault sorted update)"},
    // Queries.
    {"aten", R"(
_assert_async _is_all_true _is_any_true _shape_as_tensor data dim element_size equal get_device
is_complex is_conj is_contiguous is_floating_point is_leaf is_neg is_non_overlapping_and_dense
is_nonzero is_same_size is_signed is_strides_like_format numel requires_grad_ size stride)"},
    // Factories and dtypes.
    {"aten", R"(
_autocast_to_full_precision _autocast_to_reduced_precision _cast_Byte _cast_Char _cast_Double
_cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _dim_arange _to_copy arange as_tensor
bartlett_window blackman_window chalf empty empty_like eye full full_like hamming_window
hann_window kaiser_window linspace logspace new_empty new_full new_ones new_zeros ones ones_like
promote_types result_type scalar_tensor tensor to type_as vander zeros zeros_like)"},
    // Shape and indexing.
    {"aten", R"(
_ncf_unsqueeze _ncf_view _pad_circular _pad_enum _pad_packed_sequence _reshape_from_tensor _stack
_unsafe_view adjoint alias alias_copy as_strided as_strided_ as_strided_copy as_strided_scatter
atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors broadcast_to cartesian_prod cat
channel_shuffle chunk clone column_stack combinations concat concatenate contiguous detach detach_
detach_copy diag diag_embed diagflat diagonal diagonal_copy diagonal_scatter dsplit dstack expand
expand_as expand_copy fill_diagonal_ flatten flatten_dense_tensors flip fliplr flipud gather
hsplit hstack index index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put
index_put_ index_reduce index_reduce_ index_select mH mT masked_fill masked_fill_ masked_scatter
masked_scatter_ masked_select matrix_H meshgrid moveaxis movedim narrow narrow_copy numpy_T
permute permute_copy put put_ ravel repeat repeat_interleave reshape reshape_as roll rot90
row_stack scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ select
select_copy select_scatter slice slice_copy slice_scatter split split_copy split_with_sizes
split_with_sizes_copy squeeze squeeze_ squeeze_copy stack swapaxes swapaxes_ swapdims swapdims_ t
t_ t_copy take take_along_dim tensor_split tile transpose transpose_ transpose_copy tril tril_
tril_indices triu triu_ triu_indices unbind unbind_copy unflatten unflatten_dense_tensors
unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_ unsqueeze_copy view view_as
view_as_complex view_as_complex_copy view_as_real view_as_real_copy view_copy vsplit vstack where)"},
    // Reductions, sorting, statistics.
    {"aten", R"(
_aminmax _unique _unique2 all allclose amax amin aminmax any argmax argmin argsort argwhere
bincount bucketize corrcoef count_nonzero cov cummax cummin cumprod cumprod_ cumsum cumsum_
cumulative_trapezoid diff histc histogram histogramdd kthvalue logcumsumexp logsumexp max maximum
mean median min minimum msort nanmean nanmedian nanquantile nansum nonzero nonzero_numpy
nonzero_static prod quantile searchsorted sort std std_mean sum sum_to_size topk trace trapezoid
trapz unique_consecutive unique_dim var var_mean)"},
    // Matrices.
    {"aten", R"(
_cdist_forward _euclidean_dist _trilinear addbmm addbmm_ addmm addmm_ addmv addmv_ addr addr_
baddbmm baddbmm_ bilinear bmm cdist chain_matmul cholesky cholesky_inverse cholesky_solve cross
det dist dot einsum ger inner inverse kron linalg__powsum linalg_cholesky linalg_cholesky_ex
linalg_cond linalg_cross linalg_det linalg_diagonal linalg_eig linalg_eigh linalg_eigvals
linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex linalg_ldl_factor
linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex
linalg_lu_solve linalg_matmul linalg_matrix_exp linalg_matrix_norm linalg_matrix_power
linalg_matrix_rank linalg_multi_dot linalg_norm linalg_pinv linalg_qr linalg_slogdet linalg_solve
linalg_solve_ex linalg_solve_triangular linalg_svd linalg_svdvals linalg_tensorinv
linalg_tensorsolve linalg_vander linalg_vecdot linalg_vector_norm logdet lu_solve lu_unpack matmul
matrix_exp matrix_power mm mv outer pdist pinverse qr renorm renorm_ slogdet svd tensordot
triangular_solve vdot)"},
    // Layers and losses.
    {"aten", R"(
__interpolate __upsample __upsample_bilinear __upsample_nearest _adaptive_avg_pool2d
_adaptive_avg_pool3d _convolution _convolution_mode _ctc_loss _embedding_bag _fused_rms_norm
_log_softmax _masked_softmax _native_batch_norm_legit _native_batch_norm_legit_functional
_native_batch_norm_legit_no_training _native_multi_head_attention _pack_padded_sequence
_safe_softmax _scaled_dot_product_attention_math _softmax _thnn_fused_gru_cell
_thnn_fused_lstm_cell _transformer_encoder_layer_fwd _upsample_bicubic2d_aa
_upsample_bilinear2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d
_upsample_nearest_exact3d _weight_norm _weight_norm_interface adaptive_avg_pool1d
adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d
adaptive_max_pool3d affine_grid_generator avg_pool1d avg_pool2d avg_pool3d batch_norm
binary_cross_entropy binary_cross_entropy_with_logits col2im constant_pad_nd conv1d conv2d conv3d
conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution cosine_embedding_loss
cosine_similarity cross_entropy_loss ctc_loss embedding embedding_bag embedding_renorm
embedding_renorm_ fake_quantize_per_channel_affine fake_quantize_per_tensor_affine
fractional_max_pool2d fractional_max_pool3d frobenius_norm grid_sampler grid_sampler_2d
grid_sampler_3d group_norm gru gru_cell hinge_embedding_loss huber_loss im2col instance_norm
kl_div l1_loss layer_norm lstm lstm_cell margin_ranking_loss max_pool1d max_pool1d_with_indices
max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool2d max_unpool3d
mse_loss multi_margin_loss multilabel_margin_loss multilabel_margin_loss_forward native_batch_norm
native_channel_shuffle native_group_norm native_layer_norm native_norm nll_loss nll_loss2d
nll_loss2d_forward nll_loss_forward nll_loss_nd norm norm_except_dim nuclear_norm one_hot pad
pad_sequence pairwise_distance pixel_shuffle pixel_unshuffle poisson_nll_loss reflection_pad1d
reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d rms_norm
rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell scaled_dot_product_attention slow_conv3d
slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d smooth_l1_loss
soft_margin_loss softmax triplet_margin_loss unfold unfold_backward unfold_copy upsample_bicubic2d
upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d
upsample_trilinear3d
_nested_tensor_from_mask _nested_tensor_from_mask_left_aligned to_padded_tensor)"},
    // Activations.
    {"aten", R"(
_prelu_kernel celu celu_ elu elu_ gelu gelu_ glu hardshrink hardsigmoid hardsigmoid_ hardswish
hardswish_ hardtanh hardtanh_ leaky_relu leaky_relu_ linear log_sigmoid log_sigmoid_forward
log_softmax logit logit_ mish mish_ prelu relu relu6 relu6_ relu_ selu selu_ sigmoid sigmoid_ silu
silu_ softplus softshrink tanh tanh_ threshold threshold_)"},
    // Random.
    {"aten", R"(
_no_grad_embedding_renorm_ _no_grad_fill_ _no_grad_normal_ _no_grad_uniform_ _no_grad_zero_
_standard_gamma alpha_dropout alpha_dropout_ bernoulli bernoulli_ binomial dropout dropout_
exponential exponential_ feature_alpha_dropout feature_alpha_dropout_ feature_dropout
feature_dropout_ geometric geometric_ log_normal log_normal_ multinomial native_dropout normal
normal_ normal_functional poisson rand rand_like randint randint_like randn randn_like random
random_ randperm rrelu rrelu_ rrelu_with_noise rrelu_with_noise_ uniform uniform_)"},
    // Fourier.
    {"aten", R"(
_fft_c2c _fft_c2r _fft_r2c fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft fft_hfft2
fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft
fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn istft stft)"},
    // Special functions.
    {"aten", R"(
special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
special_chebyshev_polynomial_w special_digamma special_entr special_erf special_erfc special_erfcx
special_erfinv special_exp2 special_expit special_expm1 special_gammainc special_gammaincc
special_gammaln special_hermite_polynomial_h special_hermite_polynomial_he special_i0 special_i0e
special_i1 special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p special_log1p
special_log_ndtr special_log_softmax special_logit special_logsumexp special_modified_bessel_i0
special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1
special_multigammaln special_ndtr special_ndtri special_polygamma special_psi special_round
special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w special_sinc
special_softmax special_spherical_bessel_j0 special_xlog1py special_xlogy special_zeta)"},
    // Lists of tensors.
    {"aten", R"(
_foreach_abs _foreach_abs_ _foreach_acos _foreach_acos_ _foreach_add _foreach_add_
_foreach_addcdiv _foreach_addcdiv_ _foreach_addcmul _foreach_addcmul_ _foreach_asin _foreach_asin_
_foreach_atan _foreach_atan_ _foreach_ceil _foreach_ceil_ _foreach_clamp_max _foreach_clamp_max_
_foreach_clamp_min _foreach_clamp_min_ _foreach_copy _foreach_copy_ _foreach_cos _foreach_cos_
_foreach_cosh _foreach_cosh_ _foreach_div _foreach_div_ _foreach_erf _foreach_erf_ _foreach_erfc
_foreach_erfc_ _foreach_exp _foreach_exp_ _foreach_expm1 _foreach_expm1_ _foreach_floor
_foreach_floor_ _foreach_frac _foreach_frac_ _foreach_lerp _foreach_lerp_ _foreach_lgamma
_foreach_lgamma_ _foreach_log _foreach_log10 _foreach_log10_ _foreach_log1p _foreach_log1p_
_foreach_log2 _foreach_log2_ _foreach_log_ _foreach_max _foreach_maximum _foreach_maximum_
_foreach_minimum _foreach_minimum_ _foreach_mul _foreach_mul_ _foreach_neg _foreach_neg_
_foreach_norm _foreach_pow _foreach_pow_ _foreach_powsum _foreach_reciprocal _foreach_reciprocal_
_foreach_round _foreach_round_ _foreach_rsqrt _foreach_rsqrt_ _foreach_sigmoid _foreach_sigmoid_
_foreach_sign _foreach_sign_ _foreach_sin _foreach_sin_ _foreach_sinh _foreach_sinh_ _foreach_sqrt
_foreach_sqrt_ _foreach_sub _foreach_sub_ _foreach_tan _foreach_tan_ _foreach_tanh _foreach_tanh_
_foreach_trunc _foreach_trunc_ _foreach_zero _foreach_zero_)"},
    // Elementwise.
    {"aten", R"(
__and__ __iand__ __ilshift__ __ior__ __irshift__ __ixor__ __lshift__ __or__ __rshift__ __xor__
_conj _grad_sum_to_size _index_put_impl_ _neg_view abs abs_ absolute absolute_ acos acos_ acosh acosh_ add add_
addcdiv addcdiv_ addcmul addcmul_ angle arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh
arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh arctanh_ asin asin_ asinh asinh_ atan atan2
atan2_ atan_ atanh atanh_ bitwise_and bitwise_and_ bitwise_left_shift bitwise_left_shift_
bitwise_not bitwise_not_ bitwise_or bitwise_or_ bitwise_right_shift bitwise_right_shift_
bitwise_xor bitwise_xor_ ceil ceil_ clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip
clip_ conj conj_physical conj_physical_ copy_ copysign copysign_ cos cos_ cosh cosh_ deg2rad
deg2rad_ digamma digamma_ div div_ divide divide_ eq eq_ erf erf_ erfc erfc_ erfinv erfinv_ exp
exp2 exp2_ exp_ expm1 expm1_ fill fill_ fix fix_ float_power float_power_ floor floor_
floor_divide floor_divide_ fmax fmin fmod fmod_ frac frac_ frexp gamma gcd_ ge ge_ gradient
greater greater_ greater_equal greater_equal_ gt gt_ heaviside heaviside_ hypot hypot_ i0 i0_
igamma igamma_ igammac igammac_ imag isclose isfinite isin isinf isnan isneginf isposinf isreal
lcm lcm_ ldexp ldexp_ le le_ lerp lerp_ less less_ less_equal less_equal_ lgamma lgamma_ log log10
log10_ log1p log1p_ log2 log2_ log_ logaddexp logaddexp2 logical_and logical_and_ logical_not
logical_not_ logical_or logical_or_ logical_xor logical_xor_ lt lt_ mul mul_ multiply multiply_
mvlgamma mvlgamma_ nan_to_num nan_to_num_ ne ne_ neg neg_ negative negative_ nextafter nextafter_
not_equal not_equal_ polar polygamma polygamma_ positive pow pow_ rad2deg rad2deg_ real reciprocal
reciprocal_ remainder remainder_ resolve_conj resolve_neg round round_ rsqrt rsqrt_ rsub sgn sgn_
sign sign_ signbit sin sin_ sinc sinc_ sinh sinh_ sqrt sqrt_ square square_ sub sub_ subtract
subtract_ sym_stride tan tan_ to_dense true_divide true_divide_ trunc trunc_ values values_copy
xlogy xlogy_ zero zero_)"},
    // Backward formulas and internals that exported code spells out.
    {"aten", R"(
_batch_norm_with_update _chunk_cat _conj_physical _lu_with_info _log_softmax_backward_data
_softmax_backward_data _unsafe_index_put _unsafe_masked_index
_unsafe_masked_index_put_accumulate cauchy cauchy_ empty_permuted empty_strided geqrf
hash_tensor max_pool2d_with_indices_backward native_dropout_backward new_empty_strided orgqr
ormqr segment_reduce special_airy_ai)"},
    // What scripted code needs beside tensors.
    {"prim", R"(
ConstantChunk EnumName EnumValue H ModuleContainerIndex NumToTensor RaiseException StringIndex T
TupleIndex TupleUnpack Uninitialized abs data device dtype index is_cpu is_cuda is_ipu is_maia
is_meta is_mkldnn is_mps is_mtia is_nested is_quantized is_sparse is_sparse_csr is_vulkan is_xla
is_xpu itemsize layout max min name nbytes rangelist requires_grad shape tolist type
unchecked_cast unchecked_unwrap_optional)"},
};
// clang-format on

struct Reason {
  const char* name;
  const char* why;
};

constexpr Reason kReasons[] = {
    {"aten::save", "writes files"},
    {"aten::from_file", "maps files into memory"},
    {"aten::wait", "waits for other threads"},
    {"aten::seed", "changes the random state of the whole process"},
    {"aten::manual_seed", "changes the random state of the whole process"},
    {"aten::Generator", "makes a random generator of its own, which member seeds cannot steer"},
    {"aten::set_", "puts a tensor on another tensor's storage"},
    {"aten::set_data", "puts a tensor on another tensor's storage"},
    {"aten::backward", "runs the backward pass inside the model"},
    {"aten::grad", "runs the backward pass inside the model"},
    {"aten::set_grad_enabled", "changes the grad mode of the whole process"},
    {"aten::to_here", "talks to other processes"},
    {"aten::_print", "prints"},
    {"prim::Print", "prints"},
    {"prim::PythonOp", "runs Python code that is not in the file"},
    {"prim::IgnoredPythonOp", "runs Python code that is not in the file"},
    {"prim::fork", "starts other threads"},
    {"prim::awaitable", "defers calls"},
    {"prim::rpc_async", "talks to other processes"},
    {"prim::rpc_sync", "talks to other processes"},
    {"prim::rpc_remote", "talks to other processes"},
};

std::unordered_set<std::string> allowedSet() {
  std::unordered_set<std::string> all;
  for (const Group& group : kAllowed) {
    std::istringstream names(group.names);
    for (std::string name; names >> name;) all.insert(std::string(group.name_space) + "::" + name);
  }
  return all;
}

}  // namespace

bool isAllowedOperator(const std::string& qualified_name) {
  static const std::unordered_set<std::string> allowed = allowedSet();
  return allowed.contains(qualified_name);
}

namespace scan {

bool isGradModeOperator(const std::string& qualified_name) {
  return qualified_name == "aten::set_grad_enabled" || qualified_name == "aten::is_grad_enabled";
}

bool isTrainingOperator(const std::string& qualified_name) {
  return qualified_name == "aten::set_grad_enabled" || qualified_name == "aten::grad";
}

std::string whyRefused(const std::string& qualified_name) {
  for (const Reason& reason : kReasons) {
    if (qualified_name == reason.name) return reason.why;
  }
  if (qualified_name.starts_with("aten::") || qualified_name.starts_with("prim::")) {
    return "is not on the list of operators that a model file may use";
  }
  return "is a custom operator; a model file may use PyTorch's own only";
}

}  // namespace scan
}  // namespace chorus
