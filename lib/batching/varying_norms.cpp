#include "lib/batching/varying_emit.h"

namespace chorus {
namespace {

using Values = std::vector<Value*>;

constexpr double kEps = 1e-5;
constexpr double kSmallest = 1e-30;  ///< stands for an eps of 0

/// c = sqrt(kEps / eps), 0-d f64: normalising c x with kEps is normalising x with eps, since
/// c (x - mean) / sqrt(c^2 var + kEps) = (x - mean) / sqrt(var + eps).
Value* inputScale(VaryingEmitter& e) {
  Value* eps = e.raw("eps");
  Value* held = e.emit("aten::clamp_min", {eps, kSmallest}, eps, at::kDouble);
  Value* ratio = e.emit("aten::mul", {e.emit("aten::reciprocal", {held}, held), kEps}, held);
  return e.emit("aten::sqrt", {ratio}, ratio);
}

Value* castTo(VaryingEmitter& e, Value* number, Value* like) {
  const auto dtype = like->type()->expectRef<c10::TensorType>().scalarType();
  return e.emit("aten::type_as", {number, like}, number, dtype);
}

void requireFullPrecision(const VaryingEmitter& e) {
  const auto dtype = e.input(0)->type()->expectRef<c10::TensorType>().scalarType();
  if (dtype != at::kFloat && dtype != at::kDouble) e.refuse("its input is not f32 or f64");
}

/// The norm over its own statistics.
Values scaledInput(VaryingEmitter& e) {
  requireFullPrecision(e);
  std::vector<Value*> inputs = e.inputs();
  inputs[0] = e.emit("aten::mul", {inputs[0], castTo(e, inputScale(e), inputs[0])}, inputs[0]);
  inputs[e.indexOf("eps")] = e.literal(kEps);
  return e.again(inputs)->outputs().vec();
}

/// The norm over given statistics: eps goes into the variance.
Values givenStatistics(VaryingEmitter& e) {
  std::vector<Value*> inputs = e.inputs();
  Value*& variance = inputs[e.indexOf("running_var")];
  variance = e.emit("aten::add", {variance, e.number("eps", variance)}, variance);
  inputs[e.indexOf("eps")] = e.literal(0.0);
  return e.again(inputs)->outputs().vec();
}

/// Where no statistics are moved the momentum is of no effect.
Values batchOrInstanceNorm(VaryingEmitter& e) {
  const std::string flag = e.has("training") ? "training" : "use_input_stats";
  if (!e.varies("eps")) return e.again(e.inputs())->outputs().vec();
  if (e.isFlag(flag, false)) return givenStatistics(e);
  if (!e.isFlag(flag, true)) e.refuse("'" + flag + "' is computed");
  return scaledInput(e);
}

/// old (1 - momentum) + batch momentum, momentum 0-d or a literal.
Value* movedStatistic(VaryingEmitter& e, Value* old, Value* batch) {
  Value* momentum = e.numberTensor("momentum", old);
  Value* rest = e.emit("aten::rsub", {momentum, 1}, momentum);
  Value* kept = e.emit("aten::mul", {old, rest}, old);
  return e.emit("aten::add", {kept, e.emit("aten::mul", {batch, momentum}, old)}, old);
}

/// With momentum 1 the op's new statistics are those of the batch: of c x where eps varies.
Values trainedBatchNorm(VaryingEmitter& e) {
  requireFullPrecision(e);
  std::vector<Value*> inputs = e.inputs();
  Value* scale = nullptr;
  if (e.varies("eps")) {
    scale = inputScale(e);
    inputs[0] = e.emit("aten::mul", {inputs[0], castTo(e, scale, inputs[0])}, inputs[0]);
    inputs[e.indexOf("eps")] = e.literal(kEps);
  }
  inputs[e.indexOf("momentum")] = e.literal(1.0);
  Values outputs = e.again(inputs)->outputs().vec();
  Value*& mean = outputs[3];
  Value*& variance = outputs[4];
  if (scale != nullptr) {
    Value* factor = castTo(e, scale, mean);
    mean = e.emit("aten::div", {mean, factor}, mean);
    Value* square = e.emit("aten::mul", {factor, factor}, factor);
    variance = e.emit("aten::div", {variance, square}, variance);
  }
  mean = movedStatistic(e, e.input("running_mean"), mean);
  variance = movedStatistic(e, e.input("running_var"), variance);
  return outputs;
}

}  // namespace

VaryingForms varyingNorms() {
  return {{"aten::_native_batch_norm_legit_functional", trainedBatchNorm},
          {"aten::batch_norm", batchOrInstanceNorm},
          {"aten::instance_norm", batchOrInstanceNorm},
          {"aten::layer_norm", scaledInput},
          {"aten::group_norm", scaledInput},
          {"aten::rms_norm", scaledInput}};
}

}  // namespace chorus
