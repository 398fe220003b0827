#include "lib/support/layout_ops.h"

#include <unordered_set>
#include <vector>

namespace chorus {

bool isPointwise(const std::string& op) {
  static const std::unordered_set<std::string> ops = {
      // arithmetic
      "aten::add",
      "aten::sub",
      "aten::rsub",
      "aten::mul",
      "aten::div",
      "aten::true_divide",
      "aten::floor_divide",
      "aten::remainder",
      "aten::fmod",
      "aten::pow",
      "aten::addcmul",
      "aten::addcdiv",
      "aten::lerp",
      "aten::maximum",
      "aten::minimum",
      "aten::fmax",
      "aten::fmin",
      "aten::atan2",
      "aten::hypot",
      "aten::copysign",
      "aten::logaddexp",
      "aten::logaddexp2",
      "aten::xlogy",
      "aten::heaviside",
      "aten::where",
      "aten::masked_fill",
      "aten::clamp",
      "aten::clamp_min",
      "aten::clamp_max",
      "aten::clip",
      // comparison, logic
      "aten::eq",
      "aten::ne",
      "aten::lt",
      "aten::le",
      "aten::gt",
      "aten::ge",
      "aten::logical_and",
      "aten::logical_or",
      "aten::logical_xor",
      "aten::logical_not",
      "aten::bitwise_and",
      "aten::bitwise_or",
      "aten::bitwise_xor",
      "aten::bitwise_not",
      "aten::__and__",
      "aten::__or__",
      "aten::__xor__",
      "aten::isnan",
      "aten::isinf",
      "aten::isfinite",
      "aten::isclose",
      "aten::signbit",
      // one operand
      "aten::abs",
      "aten::neg",
      "aten::positive",
      "aten::sign",
      "aten::sgn",
      "aten::ceil",
      "aten::floor",
      "aten::round",
      "aten::trunc",
      "aten::frac",
      "aten::reciprocal",
      "aten::sqrt",
      "aten::rsqrt",
      "aten::square",
      "aten::exp",
      "aten::exp2",
      "aten::expm1",
      "aten::log",
      "aten::log2",
      "aten::log10",
      "aten::log1p",
      "aten::sin",
      "aten::cos",
      "aten::tan",
      "aten::asin",
      "aten::acos",
      "aten::atan",
      "aten::sinh",
      "aten::cosh",
      "aten::tanh",
      "aten::asinh",
      "aten::acosh",
      "aten::atanh",
      "aten::erf",
      "aten::erfc",
      "aten::erfinv",
      "aten::lgamma",
      "aten::digamma",
      "aten::sinc",
      "aten::logit",
      "aten::nan_to_num",
      "aten::deg2rad",
      "aten::rad2deg",
      // activations
      "aten::relu",
      "aten::relu6",
      "aten::leaky_relu",
      "aten::elu",
      "aten::selu",
      "aten::celu",
      "aten::gelu",
      "aten::silu",
      "aten::mish",
      "aten::sigmoid",
      "aten::log_sigmoid",
      "aten::softplus",
      "aten::hardtanh",
      "aten::hardsigmoid",
      "aten::hardswish",
      "aten::hardshrink",
      "aten::softshrink",
      "aten::threshold",
      // random, independent draws per element
      "aten::dropout",
      "aten::alpha_dropout",
      "aten::bernoulli",
  };
  return ops.count(op) > 0;
}

bool isPointwiseInFirst(const std::string& op) {
  static const std::unordered_set<std::string> ops = {
      "aten::to",         "aten::type_as",   "aten::contiguous", "aten::clone",
      "aten::detach",     "aten::alias",     "aten::zeros_like", "aten::ones_like",
      "aten::full_like",  "aten::rand_like", "aten::randn_like", "aten::empty_like",
      "aten::lift_fresh",
  };
  return ops.count(op) > 0;
}

const AlongDims* findAlongDims(const std::string& op) {
  static const std::vector<AlongDims> table = {
      {"aten::mean", "dim", false},      {"aten::sum", "dim", false},
      {"aten::amax", "dim", false},      {"aten::amin", "dim", false},
      {"aten::var", "dim", false},       {"aten::std", "dim", false},
      {"aten::prod", "dim", false},      {"aten::logsumexp", "dim", false},
      {"aten::argmax", "dim", false},    {"aten::argmin", "dim", false},
      {"aten::squeeze", "dim", false},   {"aten::select", "dim", false},
      {"aten::slice", "dim", true},      {"aten::narrow", "dim", true},
      {"aten::softmax", "dim", true},    {"aten::log_softmax", "dim", true},
      {"aten::cumsum", "dim", true},     {"aten::glu", "dim", true},
      {"aten::flip", "dims", true},      {"aten::linalg_vector_norm", "dim", false},
      {"aten::unsqueeze", "dim", false},
  };
  for (const AlongDims& row : table) {
    if (op == row.op) return &row;
  }
  return nullptr;
}

}  // namespace chorus
