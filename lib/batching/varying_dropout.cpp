#include "lib/batching/varying_emit.h"

namespace chorus {
namespace {

using Values = std::vector<Value*>;

/// [N,C,H,...] -> [N,C,1,...]: one draw per channel.
Value* onePerChannel(VaryingEmitter& e, Value* x) {
  const auto& type = x->type()->expectRef<c10::TensorType>();
  if (!type.dim()) e.refuse("the rank of its input is not known");
  std::vector<std::optional<int64_t>> sizes = *type.sizes().sizes();
  for (size_t d = 2; d < sizes.size(); ++d) {
    sizes[d] = 1;
    x = e.emit("aten::slice", {x, static_cast<int64_t>(d), 0, 1, 1}, x);
    x->setType(type.withSymbolicShapes(c10::SymbolicShape(sizes)));
  }
  return x;
}

/// 1 where an element is kept, with probability 1 - p; of `like`'s dtype. The runtime's op is given
/// its number by the pass counter-random.
Value* keptElements(VaryingEmitter& e, Value* like) {
  if (e.options().counter_based_random) {
    return e.emitForeign("chorus::kept", {like, e.raw("p"), e.literal(-1), e.literal(false)}, like);
  }
  Value* drawn = e.emit("aten::rand_like", {like}, like);
  Value* kept = e.emit("aten::ge", {drawn, e.number("p", like)}, like, at::kBool);
  return e.emit("aten::type_as", {kept, like}, like);
}

/// x kept / (1 - p); nothing is kept where p is 1.
Values scaled(VaryingEmitter& e, Value* x, Value* kept) {
  Value* p = e.raw("p");
  Value* all = e.emit("aten::ge", {p, 1}, p, at::kBool);
  Value* rest = e.emit(
      "aten::where", {all, e.emit("aten::ones_like", {p}, p), e.emit("aten::rsub", {p, 1}, p)}, p);
  Value* factor = e.emit("aten::type_as", {e.emit("aten::reciprocal", {rest}, rest), kept}, rest,
                         kept->type()->expectRef<c10::TensorType>().scalarType());
  return {e.emit("aten::mul", {x, e.emit("aten::mul", {kept, factor}, kept)}, x)};
}

/// a x kept + b, with a = 1/sqrt((1 - p)(1 + alpha^2 p)), b = alpha a (kept - 1 + p)
Values alphaScaled(VaryingEmitter& e, Value* x, Value* kept) {
  constexpr double kAlpha = 1.7580993408473766;  // SELU's scale * alpha
  Value* p = e.raw("p");
  const auto f64 = [&](const std::string& op, std::vector<torch::jit::NamedValue> arguments) {
    return e.emit(op, arguments, p, at::kDouble);
  };
  Value* rest = f64("aten::rsub", {p, 1});
  Value* grown = f64("aten::add", {f64("aten::mul", {p, kAlpha * kAlpha}), 1});
  Value* all = e.emit("aten::ge", {p, 1}, p, at::kBool);
  Value* root = f64("aten::rsqrt", {f64("aten::mul", {rest, grown})});
  Value* a = f64("aten::where", {all, f64("aten::zeros_like", {p}), root});
  const auto dtype = kept->type()->expectRef<c10::TensorType>().scalarType();
  Value* a_cast = e.emit("aten::type_as", {a, kept}, a, dtype);
  Value* p_cast = e.emit("aten::type_as", {p, kept}, p, dtype);
  Value* shift = e.emit("aten::sub", {kept, 1}, kept);
  shift = e.emit("aten::mul", {e.emit("aten::add", {shift, p_cast}, kept), a_cast}, kept);
  shift = e.emit("aten::mul", {shift, kAlpha}, kept);
  Value* product = e.emit("aten::mul", {x, e.emit("aten::mul", {kept, a_cast}, kept)}, x);
  return {e.emit("aten::add", {product, shift}, x)};
}

Values dropout(VaryingEmitter& e) {
  Value* x = e.input(0);
  if (e.isFlag("train", false)) return {x};
  if (!e.isFlag("train", true)) e.refuse("'train' is computed");
  const std::string op = e.node()->kind().toQualString();
  const bool per_channel = op.find("feature") != std::string::npos;
  Value* kept = keptElements(e, per_channel ? onePerChannel(e, x) : x);
  const bool alpha = op.find("alpha") != std::string::npos;
  return alpha ? alphaScaled(e, x, kept) : scaled(e, x, kept);
}

}  // namespace

VaryingForms varyingDropouts() {
  return {{"aten::dropout", dropout},
          {"aten::feature_dropout", dropout},
          {"aten::alpha_dropout", dropout},
          {"aten::feature_alpha_dropout", dropout}};
}

}  // namespace chorus
