#include "chorus/batching_rule.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

// [K,B,M,I] x [K,I,J]: one gemm per member, not one per (K,B).
Value* manyRows(RuleContext& context, Value* a, Value* b, int64_t rank) {
  std::vector<Value*> sizes;
  for (int64_t d = 1; d < rank; ++d) sizes.push_back(context.emit("aten::size", {a, d}));
  Value* rows = context.emit("aten::flatten", {a, 1, -2});  // [K,B,M,I] -> [K,(B M),I]
  Value* y = context.emit("aten::bmm", {rows, b});          // [K,(B M),J]
  return context.emit("aten::unflatten",
                      {y, 1, context.intList(sizes)});  // [K,(B M),J] -> [K,B,M,J]
}

// A stacked matrix behind whose K stand size-1 dims up to member rank `rank`.  [K,I,J] -> [K,1,I,J]
Value* aligned(RuleContext& context, Value* value, bool stacked, int64_t own, int64_t rank) {
  if (!stacked) return value;
  for (; own < rank; ++own) value = context.emit("aten::unsqueeze", {value, 1});
  return value;
}

// Operands `ia` times `ib` as torch.matmul: vectors are rows and columns, leading dims broadcast.
// Stacked.
Value* matmulOf(RuleContext& context, size_t ia, size_t ib) {
  const int64_t rank_a = context.rank(ia), rank_b = context.rank(ib);
  const int64_t ra = std::max<int64_t>(rank_a, 2), rb = std::max<int64_t>(rank_b, 2);
  const bool stacked_b = isStacked(context, ib);
  const bool stacked_a = isStacked(context, ia) || (stacked_b && rb == 2);
  Value* a = stacked_a ? context.stacked(ia) : context.operand(ia).value;
  Value* b = context.operand(ib).value;
  if (rank_a == 1) a = context.emit("aten::unsqueeze", {a, -2});  // [K,I] -> [K,1,I]
  if (rank_b == 1) b = context.emit("aten::unsqueeze", {b, -1});  // [K,I] -> [K,I,1]
  Value* y = nullptr;
  if (stacked_b && rb == 2) {
    y = ra == 2 ? context.emit("aten::bmm", {a, b}) : manyRows(context, a, b, ra);
  } else {
    const int64_t rank = std::max(ra, rb);
    y = context.emit("aten::matmul", {aligned(context, a, stacked_a, ra, rank),
                                      aligned(context, b, stacked_b, rb, rank)});
  }
  if (rank_a == 1) y = context.emit("aten::squeeze", {y, -2});  // [K,...,1,J] -> [K,...,J]
  if (rank_b == 1) y = context.emit("aten::squeeze", {y, -1});  // [K,...,I,1] -> [K,...,I]
  return y;
}

RuleResult matmul(RuleContext& context) { return stackedResults({matmulOf(context, 0, 1)}); }

// [K,N,1] * [K,1,M] -> [K,N,M]; a shared vector broadcasts over K.
Value* outerOf(RuleContext& context, size_t ia, size_t ib) {
  Value* column = context.emit("aten::unsqueeze", {context.operand(ia).value, -1});
  Value* row = context.emit("aten::unsqueeze", {context.operand(ib).value, -2});
  return context.emit("aten::mul", {column, row});
}

RuleResult outer(RuleContext& context) { return stackedResults({outerOf(context, 0, 1)}); }

// beta * self + alpha * product, for ops of the form (self, a, b, beta, alpha) whose product has
// member rank `rank`.
RuleResult addScaled(RuleContext& context, Value* product, int64_t rank) {
  Value* beta = context.operand(3).value;
  Value* alpha = context.operand(4).value;
  if (!context.constant(3)) return std::nullopt;
  if (isNumber(context, 3, 0)) {  // self is not looked at: its NaN does not count
    return stackedResults({context.emit("aten::mul", {product, alpha})});
  }
  Value* self = isStacked(context, 0) ? context.stackedAtRank(0, rank) : context.operand(0).value;
  if (!isNumber(context, 3, 1)) self = context.emit("aten::mul", {self, beta});
  return stackedResults({context.emit("aten::add", {self, product}, {{"alpha", alpha}})});
}

// The product of operands 1 and 2, which may both be shared.
bool productIsStacked(const RuleContext& context) {
  return isStacked(context, 1) || isStacked(context, 2);
}

Value* productOf(RuleContext& context) {
  if (productIsStacked(context)) return matmulOf(context, 1, 2);
  return context.emit("aten::matmul", {context.operand(1).value, context.operand(2).value});
}

// beta = 0 and a shared product: nothing of the members goes in.
RuleResult sharedProduct(RuleContext& context, Value* product) {
  Value* scaled = context.emit("aten::mul", {product, context.operand(4).value});
  return std::vector<Operand>{{scaled, false}};
}

RuleResult baddbmm(RuleContext& context) {
  if (!productIsStacked(context) && isNumber(context, 3, 0))
    return sharedProduct(context, productOf(context));
  return addScaled(context, productOf(context), 3);
}

RuleResult addmv(RuleContext& context) {
  if (!productIsStacked(context) && isNumber(context, 3, 0))
    return sharedProduct(context, productOf(context));
  return addScaled(context, productOf(context), 1);
}

RuleResult addr(RuleContext& context) {
  if (!productIsStacked(context) && isNumber(context, 3, 0))
    return sharedProduct(context, outerOf(context, 1, 2));
  return addScaled(context, outerOf(context, 1, 2), 2);
}

// baddbmm(self [K,1,M], a [K,N,I], b [K,I,M])
RuleResult addmm(RuleContext& context) {
  Value* self = isStacked(context, 0) ? context.stackedAtRank(0, 2) : context.operand(0).value;
  const std::vector<torch::jit::NamedValue> scales = {{"beta", context.operand(3).value},
                                                      {"alpha", context.operand(4).value}};
  return stackedResults(
      {context.emit("aten::baddbmm", {self, context.stacked(1), context.stacked(2)}, scales)});
}

}  // namespace

RuleRows contractions() {
  return {
      {"aten::matmul", matmul, "contraction"},   {"aten::mm", matmul, "contraction"},
      {"aten::bmm", matmul, "contraction"},      {"aten::mv", matmul, "contraction"},
      {"aten::dot", matmul, "contraction"},      {"aten::outer", outer, "contraction"},
      {"aten::ger", outer, "contraction"},       {"aten::addmm", addmm, "contraction"},
      {"aten::baddbmm", baddbmm, "contraction"}, {"aten::addmv", addmv, "contraction"},
      {"aten::addr", addr, "contraction"},
  };
}

}  // namespace chorus
