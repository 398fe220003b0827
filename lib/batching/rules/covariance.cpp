#include <limits>

#include "lib/batching/families.h"
#include "lib/batching/fold.h"
#include "lib/batching/script_code.h"

namespace chorus {
namespace {

// cov(x [V,N], correction, fweights? [N], aweights? [N]); corrcoef(x). A vector is one variable.
constexpr size_t kCorrection = 1, kFrequencies = 2, kWeights = 3;

// x [K,V,N], w [K,1,N] -> [K,V,V]. What is not weighted is divided by N, not averaged: integers
// have no mean.
const char* const kPlain = R"py(
def covariance(x: Tensor, correction: int) -> Tensor:
    x = x - x.sum([-1], True) / x.size(-1)
    return torch.matmul(x, x.mH) / max(x.size(-1) - correction, 0)
)py";

const char* const kFrequent = R"py(
def covariance(x: Tensor, correction: int, f: Tensor) -> Tensor:
    total = f.sum([-1], True)
    x = x - (x * f).sum([-1], True) / total
    return torch.matmul(x, (x * f).mH) / (total - correction).clamp_min(0)
)py";

const char* const kWeighted = R"py(
def covariance(x: Tensor, correction: int, w: Tensor, a: Tensor) -> Tensor:
    total = w.sum([-1], True)
    x = x - (x * w).sum([-1], True) / total
    norm = total
    if correction != 0:
        norm = total - correction * (w * a).sum([-1], True) / total
    return torch.matmul(x, (x * w).mH) / norm.clamp_min(0)
)py";

const char* const kCorrelation = R"py(
def correlation(c: Tensor) -> Tensor:
    d = c.diagonal(0, -2, -1)
    if d.is_complex():
        d = torch.real(d)
    d = d.sqrt()
    return c / d.unsqueeze(-1) / d.unsqueeze(-2)
)py";

/// [K,V,N]
Value* variables(RuleContext& context) {
  Value* x = withDim(context, 0);
  return context.rank(0) < 2 ? context.emit("aten::unsqueeze", {x, 1}) : x;
}

/// Where one variable has no dims of its own.  [K,1,1] -> [K]
RuleResult withoutDims(RuleContext& context, Value* y) {
  return stackedResults(
      {context.outputRank() == 0 ? context.emit("aten::flatten", {y, 0, -1}) : y});
}

RuleResult cov(RuleContext& context) {
  Value* x = variables(context);
  Value* correction = context.operand(kCorrection).value;
  const auto weights = [&](size_t i) {  // [K,N] -> [K,1,N]
    return context.emit("aten::unsqueeze", {withDim(context, i), 1});
  };
  const bool frequent = !context.isNone(kFrequencies);
  if (context.isNone(kWeights)) {
    std::vector<Value*> inputs = {x, correction};
    if (frequent) inputs.push_back(weights(kFrequencies));
    return withoutDims(
        context, emitScript(context, frequent ? kFrequent : kPlain, "covariance", inputs).front());
  }
  // A member whose weights PyTorch refuses gets NaN.
  Value* a = weights(kWeights);
  Value* negative = context.emit("aten::lt", {a, 0});
  negative = context.emit("aten::any", {negative, -1, true});
  a = context.emit("aten::masked_fill", {a, negative, std::numeric_limits<double>::quiet_NaN()});
  Value* w = frequent ? context.emit("aten::mul", {weights(kFrequencies), a}) : a;
  return withoutDims(context,
                     emitScript(context, kWeighted, "covariance", {x, correction, w, a}).front());
}

RuleResult corrcoef(RuleContext& context) {
  Value* c = emitScript(context, kPlain, "covariance", {variables(context), context.constantOf(1)})
                 .front();
  if (context.outputRank() == 0) {
    c = context.emit("aten::flatten", {c, 0, -1});
    return stackedResults({context.emit("aten::div", {c, c})});
  }
  Value* y = emitScript(context, kCorrelation, "correlation", {c}).front();
  const auto dtype = context.outputDtype();
  if (!dtype) return context.decline("the dtype is not known");
  if (!at::isComplexType(*dtype)) return stackedResults({context.emit("aten::clamp", {y, -1, 1})});
  Value* real = context.emit("aten::clamp", {context.emit("aten::real", {y}), -1, 1});
  Value* imaginary = context.emit("aten::clamp", {context.emit("aten::imag", {y}), -1, 1});
  return stackedResults({context.emit("aten::complex", {real, imaginary})});
}

}  // namespace

RuleRows covariance() {
  return concatenated({
      rowsOf("contraction", cov, {"cov"}),
      rowsOf("contraction", corrcoef, {"corrcoef"}),
  });
}

}  // namespace chorus
