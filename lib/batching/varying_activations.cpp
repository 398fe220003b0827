#include "lib/batching/varying_emit.h"

namespace chorus {
namespace {

using at::kBool;
using Values = std::vector<Value*>;

Value* compare(VaryingEmitter& e, const std::string& op, Value* x, Value* y) {
  return e.emit(op, {x, y}, x, kBool);
}

Value* where(VaryingEmitter& e, Value* condition, Value* x, Value* y, Value* like) {
  return e.emit("aten::where", {condition, x, y}, like);
}

Value* times(VaryingEmitter& e, Value* x, Value* y) { return e.emit("aten::mul", {x, y}, x); }

// x > 0 ? x : x s
Values leakyRelu(VaryingEmitter& e) {
  Value* x = e.wide(0);
  Value* below = times(e, x, e.number("negative_slope", x));
  return {e.narrow(where(e, compare(e, "aten::gt", x, e.literal(0)), x, below, x))};
}

// x > 0 ? x scale : (exp(x input_scale) - 1) alpha scale. The exponent is held at or below 0: a
// branch that is not taken must not make its gradient infinite.
Values elu(VaryingEmitter& e) {
  Value* x = e.wide(0);
  Value* below = e.emit("aten::clamp_max", {x, 0}, x);
  below = e.emit("aten::expm1", {times(e, below, e.number("input_scale", x))}, x);
  below = times(e, times(e, below, e.number("alpha", x)), e.number("scale", x));
  Value* above = times(e, x, e.number("scale", x));
  return {e.narrow(where(e, compare(e, "aten::gt", x, e.literal(0)), above, below, x))};
}

// x > 0 ? x : (exp(x / alpha) - 1) alpha
Values celu(VaryingEmitter& e) {
  Value* x = e.wide(0);
  Value* alpha = e.number("alpha", x);
  Value* below = e.emit("aten::div", {e.emit("aten::clamp_max", {x, 0}, x), alpha}, x);
  below = times(e, e.emit("aten::expm1", {below}, x), alpha);
  return {e.narrow(where(e, compare(e, "aten::gt", x, e.literal(0)), x, below, x))};
}

// x beta > threshold ? x : log(1 + exp(x beta)) / beta, the exponent held at the threshold
Values softplus(VaryingEmitter& e) {
  Value* x = e.wide(0);
  Value* beta = e.number("beta", x);
  Value* threshold = e.numberTensor("threshold", x);
  Value* scaled = times(e, x, beta);
  Value* held = e.emit("aten::clamp_max", {scaled, threshold}, x);
  Value* soft = e.emit("aten::log1p", {e.emit("aten::exp", {held}, x)}, x);
  soft = e.emit("aten::div", {soft, beta}, x);
  return {e.narrow(where(e, compare(e, "aten::gt", scaled, threshold), x, soft, x))};
}

// Not clamp: at the bounds themselves hardtanh has no gradient.
Values hardtanh(VaryingEmitter& e) {
  Value* x = e.wide(0);
  Value* low = e.numberTensor("min_val", x);
  Value* high = e.numberTensor("max_val", x);
  Value* upper = where(e, compare(e, "aten::ge", x, high), high, x, x);
  return {e.narrow(where(e, compare(e, "aten::le", x, low), low, upper, x))};
}

Values threshold(VaryingEmitter& e) {
  Value* x = e.wide(0);
  Value* value = e.numberTensor("value", x);
  Value* below = compare(e, "aten::le", x, e.number("threshold", x));
  return {e.narrow(where(e, below, value, x, x))};
}

Values hardshrink(VaryingEmitter& e) {
  Value* x = e.wide(0);
  Value* small = compare(e, "aten::le", e.emit("aten::abs", {x}, x), e.number("lambd", x));
  return {e.narrow(where(e, small, e.emit("aten::zeros_like", {x}, x), x, x))};
}

// x > l ? x - l : x < -l ? x + l : 0, and nan for nan
Values softshrink(VaryingEmitter& e) {
  Value* x = e.wide(0);
  Value* l = e.number("lambd", x);
  Value* minus = e.emit("aten::neg", {l}, l);
  Value* zero = where(e, compare(e, "aten::ne", x, x), x, e.emit("aten::zeros_like", {x}, x), x);
  Value* low = where(e, compare(e, "aten::lt", x, minus), e.emit("aten::add", {x, l}, x), zero, x);
  Value* high = e.emit("aten::sub", {x, l}, x);
  return {e.narrow(where(e, compare(e, "aten::gt", x, l), high, low, x))};
}

// First the lower bound, then the upper one: where they cross, the upper one wins.
Values clamp(VaryingEmitter& e) {
  Value* x = e.wide(0);
  if (!e.isNone("min")) x = e.emit("aten::clamp_min", {x, e.number("min", x)}, x);
  if (!e.isNone("max")) x = e.emit("aten::clamp_max", {x, e.number("max", x)}, x);
  return {e.narrow(x)};
}

Values clampOneSide(VaryingEmitter& e) {
  Value* x = e.wide(0);
  const std::string name = e.has("min") ? "min" : "max";
  return {e.narrow(e.emit("aten::clamp_" + name, {x, e.number(name, x)}, x))};
}

// softmax(q k^T scale) = softmax((q scale) k^T)
Values attention(VaryingEmitter& e) {
  Value* query = e.input(0);
  std::vector<Value*> inputs = e.inputs();
  inputs[0] = times(e, query, e.number("scale", query));
  inputs[e.indexOf("scale")] = e.literal(1.0);
  return e.again(inputs)->outputs().vec();
}

}  // namespace

VaryingForms varyingActivations() {
  return {{"aten::leaky_relu", leakyRelu},
          {"aten::elu", elu},
          {"aten::celu", celu},
          {"aten::softplus", softplus},
          {"aten::hardtanh", hardtanh},
          {"aten::threshold", threshold},
          {"aten::hardshrink", hardshrink},
          {"aten::softshrink", softshrink},
          {"aten::clamp", clamp},
          {"aten::clamp_min", clampOneSide},
          {"aten::clamp_max", clampOneSide},
          {"aten::scaled_dot_product_attention", attention}};
}

}  // namespace chorus
