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

// x >= 0 ? x : x slope, the slope drawn between the bounds, or in the middle of them
Values rrelu(VaryingEmitter& e) {
  Value* x = e.wide(0);
  Value* lower = e.numberTensor("lower", x);
  Value* upper = e.numberTensor("upper", x);
  Value* slope = nullptr;
  if (e.isFlag("training", true)) {
    Value* span = e.emit("aten::sub", {upper, lower}, lower);
    slope = e.emit("aten::mul", {e.emit("aten::rand_like", {x}, x), span}, x);
    slope = e.emit("aten::add", {slope, lower}, x);
  } else if (e.isFlag("training", false)) {
    Value* sum = e.emit("aten::add", {lower, upper}, lower);
    slope = e.emit("aten::div", {sum, 2.0}, lower);
  } else {
    e.refuse("'training' is computed");
  }
  Value* positive = e.emit("aten::ge", {x, 0}, x, at::kBool);
  Value* below = e.emit("aten::mul", {x, slope}, x);
  return {e.narrow(e.emit("aten::where", {positive, x, below}, x))};
}

/// 1 with probability p.
Values bernoulli(VaryingEmitter& e) {
  Value* x = e.input(0);
  Value* drawn = e.emit("aten::rand_like", {x}, x);
  Value* hit = e.emit("aten::lt", {drawn, e.number("p", x)}, x, at::kBool);
  return {e.emit("aten::type_as", {hit, x}, x)};
}

/// The op with (0, 1) for its two numbers, times `scale`, plus `shift`.
Values moved(VaryingEmitter& e, const std::string& shift, const std::string& scale) {
  std::vector<Value*> inputs = e.inputs();
  for (const std::string& name : {shift, scale}) {
    if (e.input(name)->type()->kind() == c10::TypeKind::TensorType)
      e.refuse("'" + name + "' is a tensor");
  }
  inputs[e.indexOf(shift)] = e.literal(0.0);
  inputs[e.indexOf(scale)] = e.literal(1.0);
  Value* drawn = e.again(inputs)->output();
  Value* first = e.numberTensor(shift, drawn);
  Value* second = e.numberTensor(scale, drawn);
  if (scale == "to") second = e.emit("aten::sub", {second, first}, second);
  return {e.emit("aten::add", {e.emit("aten::mul", {drawn, second}, drawn), first}, drawn)};
}
Values uniform(VaryingEmitter& e) { return moved(e, "from", "to"); }
Values normal(VaryingEmitter& e) { return moved(e, "mean", "std"); }
Values cauchy(VaryingEmitter& e) { return moved(e, "median", "sigma"); }

Values exponential(VaryingEmitter& e) {
  std::vector<Value*> inputs = e.inputs();
  inputs[e.indexOf("lambd")] = e.literal(1.0);
  Value* drawn = e.again(inputs)->output();
  return {e.emit("aten::div", {drawn, e.number("lambd", drawn)}, drawn)};
}

}  // namespace

VaryingForms varyingRandom() {
  return {{"aten::rrelu", rrelu},
          {"aten::bernoulli", bernoulli},
          {"aten::uniform", uniform},
          {"aten::normal", normal},
          {"aten::normal_functional", normal},
          {"aten::cauchy", cauchy},
          {"aten::exponential", exponential},
          {"aten::dropout", dropout},
          {"aten::feature_dropout", dropout},
          {"aten::alpha_dropout", dropout},
          {"aten::feature_alpha_dropout", dropout}};
}

}  // namespace chorus
