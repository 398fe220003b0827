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
};

}  // namespace chorus
