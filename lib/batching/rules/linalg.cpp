#include "lib/batching/dims.h"
#include "lib/batching/families.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

using c10::IValue;

/// Tensor argument i works on its last own[i] dims (further ones: none); what stands in front
/// broadcasts, and K with it. [K,A,B], [K,C,A,B] -> [K,1,A,B], [K,C,A,B]
BatchingRule onLast(std::vector<int64_t> own) {
  return [own](RuleContext& context) -> RuleResult {
    const auto ownDims = [&](size_t i) { return i < own.size() ? own[i] : 0; };
    int64_t front = 0;
    for (size_t i = 0; i < context.size(); ++i) {
      if (!context.isTensor(i)) continue;
      if (context.rank(i) < ownDims(i)) return context.decline("a tensor of too few dims");
      front = std::max(front, context.rank(i) - ownDims(i));
    }
    std::vector<Value*> inputs = context.inputs();
    for (size_t i = 0; i < context.size(); ++i) {
      if (context.isTensor(i)) inputs[i] = context.stackedAtRank(i, front + ownDims(i));
    }
    return stackedResults(context.emitSame(inputs));
  };
}

/// As `rule`, but results that a flag leaves out are empty, whatever K is: no rule for these.
BatchingRule unlessLeftOut(const BatchingRule& rule, std::vector<std::string> flags) {
  return [rule, flags](RuleContext& context) -> RuleResult {
    for (const std::string& flag : flags) {
      const auto given = context.constant(context.indexOf(flag));
      if (!given || !given->isBool() || !given->toBool())
        return context.decline("without '" + flag + "'");
    }
    return rule(context);
  };
}

/// qr(x, mode): 'r' leaves Q out.
RuleResult qr(RuleContext& context) {
  const auto mode = context.constant(1);
  if (!mode || (mode->isString() && mode->toStringRef() == "r")) return context.decline("mode 'r'");
  return onLast({2})(context);
}

/// Is the right side of solve(A, B) a vector per matrix?
bool isVector(const RuleContext& context) {
  const int64_t a = context.rank(0), b = context.rank(1);
  if (b == 1) return true;
  return b == a - 1 && context.outputRank() == b;  // of a matrix it would be A's rank
}

/// linalg_solve(A, B, left), linalg_solve_ex(A, B, left, check_errors)
RuleResult solve(RuleContext& context) {
  if (!isVector(context)) return onLast({2, 2})(context);
  const int64_t front = std::max(context.rank(0) - 2, context.rank(1) - 1);
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = context.stackedAtRank(0, front + 2);
  // [K,A] -> [K,A,1]
  inputs[1] = context.emit("aten::unsqueeze", {context.stackedAtRank(1, front + 1), -1});
  std::vector<Value*> results = context.emitSame(inputs);
  results[0] = context.emit("aten::squeeze", {results[0], -1});
  return stackedResults(results);
}

/// linalg_norm(x, ord?, dim?, keepdim, dtype): over all dims as one vector, or as matrix or vector.
RuleResult linalgNorm(RuleContext& context) {
  const size_t at = context.indexOf("dim");
  const auto dims = context.constant(at);
  const auto order = context.constant(1);
  if (!dims || !order) return context.decline("computed dim or ord");
  if (!dims->isNone()) return dimShift()(context);
  const int64_t rank = context.rank(0);
  std::vector<Value*> inputs = context.inputs();
  if (!order->isNone() || context.isNone(1) == false) {
    if (rank == 0 || rank > 2) return context.decline("a norm of a tensor without a rule");
    inputs[0] = context.stacked(0);
    inputs[at] = context.constantOf(dimRange(1, rank));
    return stackedResults(context.emitSame(inputs));
  }
  // [K,...] -> [K,P] -> [K]
  Value* row = context.emit("aten::flatten", {withDim(context, 0), 1, -1});
  inputs[0] = row;
  inputs[at] = context.constantOf(std::vector<int64_t>{1});
  inputs[context.indexOf("keepdim")] = context.constantOf(false);
  Value* norm = context.emitSame(inputs)[0];
  return stackedResults({context.raiseRank(norm, 0, context.outputRank())});
}

/// [K] + sizes
Value* behindCount(RuleContext& context, Value* sizes) {
  return context.emit("aten::add", {context.intList({context.memberCount()}), sizes});
}

Value* sizesFrom(RuleContext& context, Value* sizes, int64_t first) {
  return context.emit("aten::slice", {sizes, first, IValue(), 1});
}

/// tensorinv(x, ind): [K,A...,B...] -> [K,P,P] -> [K,B...,A...]
RuleResult tensorInverse(RuleContext& context) {
  const auto ind = context.constantInt(1);
  if (!ind || *ind <= 0 || *ind >= context.rank(0)) return context.decline("no matrix");
  Value* sizes = context.memberSizes(0);
  Value* front = context.emit("aten::slice", {sizes, 0, *ind, 1});
  Value* all = context.emit("aten::add", {sizesFrom(context, sizes, *ind), front});
  Value* matrix = context.emit("aten::flatten", {context.stacked(0), *ind + 1, -1});
  matrix = context.emit("aten::flatten", {matrix, 1, *ind});
  Value* inverse = context.emit("aten::linalg_inv", {matrix});
  return stackedResults({context.emit("aten::reshape", {inverse, behindCount(context, all)})});
}

/// tensorsolve(A, b): A [K,B...,X...] -> [K,P,P], b [K,B...] -> [K,P]; the result [K,X...]
RuleResult tensorSolve(RuleContext& context) {
  const int64_t b = context.rank(1);
  if (!context.isNone(2)) return context.decline("dims");
  if (b == 0 || context.rank(0) <= b) return context.decline("no matrix");
  Value* sizes = sizesFrom(context, context.memberSizes(0), b);
  Value* matrix = context.emit("aten::flatten", {context.stacked(0), b + 1, -1});
  matrix = context.emit("aten::flatten", {matrix, 1, b});
  Value* right = context.emit("aten::unsqueeze",
                              {context.emit("aten::flatten", {context.stacked(1), 1, -1}), -1});
  Value* solution = context.emit("aten::linalg_solve", {matrix, right});
  return stackedResults({context.emit("aten::reshape", {solution, behindCount(context, sizes)})});
}

/// x.mH, x.H, adjoint(x)
RuleResult adjoint(RuleContext& context) {
  if (context.rank(0) < 2) return context.decline("a matrix op on a tensor of rank below 2");
  return stackedResults({context.emit("aten::mH", {context.stacked(0)})});
}

}  // namespace

RuleRows linalg() {
  const char* family = "matrix";
  return concatenated({
      rowsOf(family, onLast({2}),
             {"linalg_inv",
              "linalg_inv_ex",
              "inverse",
              "linalg_det",
              "det",
              "linalg_slogdet",
              "slogdet",
              "logdet",
              "linalg_cholesky",
              "linalg_cholesky_ex",
              "cholesky",
              "cholesky_inverse",
              "linalg_svd",
              "linalg_svdvals",
              "svd",
              "linalg_eig",
              "linalg_eigvals",
              "linalg_eigh",
              "linalg_eigvalsh",
              "linalg_matrix_exp",
              "matrix_exp",
              "linalg_matrix_power",
              "matrix_power",
              "linalg_pinv",
              "pinverse",
              "linalg_matrix_rank",
              "linalg_cond",
              "linalg_lu_factor",
              "linalg_lu_factor_ex",
              "linalg_ldl_factor",
              "linalg_ldl_factor_ex",
              "geqrf",
              "_lu_with_info"}),
      rowsOf(family, unlessLeftOut(onLast({2}), {"pivot"}), {"linalg_lu"}),
      rowsOf(family, unlessLeftOut(onLast({2, 1}), {"unpack_data", "unpack_pivots"}),
             {"lu_unpack"}),
      rowsOf(family, qr, {"linalg_qr", "qr"}),
      rowsOf(family, onLast({2, 2}),
             {"cholesky_solve", "linalg_solve_triangular", "triangular_solve"}),
      rowsOf(family, onLast({2, 1}), {"linalg_householder_product", "orgqr"}),
      rowsOf(family, onLast({2, 1, 2}), {"ormqr", "linalg_lu_solve", "linalg_ldl_solve"}),
      rowsOf(family, onLast({2, 2, 1}), {"lu_solve"}),
      rowsOf(family, onLast({1}), {"linalg_vander"}),
      rowsOf(family, solve, {"linalg_solve", "linalg_solve_ex"}),
      rowsOf(family, tensorInverse, {"linalg_tensorinv"}),
      rowsOf(family, tensorSolve, {"linalg_tensorsolve"}),
      rowsOf(family, adjoint, {"mH", "matrix_H", "adjoint"}),
      rowsOf("reduction", linalgNorm, {"linalg_norm"}),
      rowsOf("reduction", dimShift(), {"linalg_matrix_norm"}),
      rowsOf("dim-shift", dimShift({"dim1", "dim2"}), {"linalg_diagonal"}),
  });
}

}  // namespace chorus
