#include "lib/batching/dims.h"
#include "lib/batching/families.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

/// `count` letters from `first` on; 'k' is the member's.
std::string letters(int64_t first, int64_t count) {
  static const std::string all = "abcdefghijlmnopqrstuvwxyz";
  return all.substr(static_cast<size_t>(first), static_cast<size_t>(count));
}

Value* einsum(RuleContext& context, const std::string& equation,
              const std::vector<Value*>& tensors) {
  return context.emit("aten::einsum",
                      {context.constantOf(c10::IValue(equation)), context.tensorList(tensors)});
}

/// Subscript of operand i: with K where it is stacked.
std::string subscript(const RuleContext& context, size_t i, const std::string& dims) {
  return (isStacked(context, i) ? "k" : "") + dims;
}

std::optional<RuleResult> tooManyDims(RuleContext& context) {
  if (context.rank(0) + context.rank(1) <= 25) return std::nullopt;
  return context.decline("more dims than letters");
}

/// tensordot(x, y, dims_x, dims_y)
RuleResult tensordot(RuleContext& context) {
  if (auto declined = tooManyDims(context)) return *declined;
  const auto dims_x = context.constantInts(2), dims_y = context.constantInts(3);
  if (!dims_x || !dims_y) return context.decline("computed dims");
  const int64_t rank_x = context.rank(0), rank_y = context.rank(1);
  std::string x = letters(0, rank_x), y = letters(rank_x, rank_y);
  const auto at = [](int64_t dim, int64_t rank) { return static_cast<size_t>(wrapDim(dim, rank)); };
  for (size_t i = 0; i < dims_x->size(); ++i)
    y[at((*dims_y)[i], rank_y)] = x[at((*dims_x)[i], rank_x)];
  std::string result = "k";
  for (const char c : x) {
    if (y.find(c) == std::string::npos) result += c;
  }
  for (const char c : y) {
    if (x.find(c) == std::string::npos) result += c;
  }
  return stackedResults(
      {einsum(context, subscript(context, 0, x) + "," + subscript(context, 1, y) + "->" + result,
              {context.operand(0).value, context.operand(1).value})});
}

/// inner(x, y): over the last dims; a number times a tensor where one has no dims.
RuleResult inner(RuleContext& context) {
  if (auto declined = tooManyDims(context)) return *declined;
  if (context.rank(0) == 0 || context.rank(1) == 0) {
    const auto inputs = alignedInputs(context, {0, 1}, {0, 1});
    if (!inputs) return context.decline("an operand's dtype is not known");
    return stackedResults({context.emit("aten::mul", {inputs->at(0), inputs->at(1)})});
  }
  const std::string x = letters(0, context.rank(0));
  std::string y = letters(context.rank(0), context.rank(1));
  y.back() = x.back();
  const std::string result = "k" + x.substr(0, x.size() - 1) + y.substr(0, y.size() - 1);
  return stackedResults(
      {einsum(context, subscript(context, 0, x) + "," + subscript(context, 1, y) + "->" + result,
              {context.operand(0).value, context.operand(1).value})});
}

/// kron(x, y): every dim of the result is one of x and one of y.  [K,A,1,B,1] [K,1,C,1,D] -> [K,(A
/// C),(B D)]
RuleResult kron(RuleContext& context) {
  const int64_t rank = largestRank(context, {0, 1});
  Value* x = context.stackedAtRank(0, rank);
  Value* y = context.stackedAtRank(1, rank);
  for (int64_t d = rank; d >= 1; --d) {
    x = context.emit("aten::unsqueeze", {x, d + 1});
    y = context.emit("aten::unsqueeze", {y, d});
  }
  Value* product = context.emit("aten::mul", {x, y});
  for (int64_t d = 1; d <= rank; ++d) product = context.emit("aten::flatten", {product, d, d + 1});
  return stackedResults({product});
}

/// vdot(x, y) = sum(conj(x) y)
RuleResult vdot(RuleContext& context) {
  Value* x = context.emit("aten::conj", {context.stacked(0)});
  return stackedResults({context.emit(
      "aten::sum", {context.emit("aten::mul", {x, context.stacked(1)}), std::vector<int64_t>{1}})});
}

RuleResult trace(RuleContext& context) {
  Value* diagonal = context.emit("aten::diagonal", {context.stacked(0), 0, 1, 2});
  return stackedResults({context.emit("aten::sum", {diagonal, std::vector<int64_t>{-1}})});
}

/// addbmm(self, a [B,N,I], b [B,I,M], beta, alpha): the product summed over B.
RuleResult addbmm(RuleContext& context) {
  if (!context.constant(3)) return context.decline("computed beta");
  const bool stacked = isStacked(context, 1) || isStacked(context, 2);
  Value* product = einsum(context,
                          subscript(context, 1, "bni") + "," + subscript(context, 2, "bim") + "->" +
                              (stacked ? "knm" : "nm"),
                          {context.operand(1).value, context.operand(2).value});
  Value* alpha = context.operand(4).value;
  if (isNumber(context, 3, 0)) {
    return std::vector<Operand>{{context.emit("aten::mul", {product, alpha}), stacked}};
  }
  Value* self = isStacked(context, 0) ? context.stackedAtRank(0, 2) : context.operand(0).value;
  if (!isNumber(context, 3, 1)) self = context.emit("aten::mul", {self, context.operand(3).value});
  return stackedResults({context.emit("aten::add", {self, product}, {{"alpha", alpha}})});
}

/// bilinear(x [...,I], y [...,J], weight [O,I,J], bias? [O]) -> [...,O]
RuleResult bilinear(RuleContext& context) {
  Value* x = context.stacked(0);
  Value* y = context.stacked(1);
  Value* weight = context.stacked(2);
  const int64_t rank = context.rank(0);
  if (rank != context.rank(1) || rank == 0 || rank > 20)
    return context.decline("inputs of different ranks");
  const std::string rows = letters(0, rank - 1);
  Value* sum =
      einsum(context, "k" + rows + "x,kzxy,k" + rows + "y->k" + rows + "z", {x, weight, y});
  if (context.isNone(3)) return stackedResults({sum});
  return stackedResults({context.emit("aten::add", {sum, context.stackedAtRank(3, rank)})});
}

/// linalg_multi_dot({a, b, ...}): vectors may stand at the ends.
RuleResult multiDot(RuleContext& context) {
  if (!context.knowsElements(0)) return context.decline("a list of unknown length");
  const std::vector<Operand> elements = context.elements(0);
  const auto first = context.memberRank(elements.front()),
             last = context.memberRank(elements.back());
  if (!first || !last || elements.size() < 2) return context.decline("tensors of unknown rank");
  Value* product = context.stackedOf(elements.front());
  if (*first == 1) product = context.emit("aten::unsqueeze", {product, 1});  // [K,I] -> [K,1,I]
  for (size_t i = 1; i < elements.size(); ++i) {
    Value* factor = context.stackedOf(elements[i]);
    const bool column = i + 1 == elements.size() && *last == 1;
    if (column) factor = context.emit("aten::unsqueeze", {factor, -1});  // [K,I] -> [K,I,1]
    product = context.emit("aten::bmm", {product, factor});
  }
  if (*last == 1) product = context.emit("aten::squeeze", {product, -1});
  if (*first == 1) product = context.emit("aten::squeeze", {product, 1});
  return stackedResults({product});
}

/// _trilinear(a, b, c, expand1, expand2, expand3, sumdim, unroll_dim): size-1 dims go into each,
/// the product is summed; all dims are of the product.
RuleResult trilinear(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  const auto first = context.constantInts(3);
  if (!first) return context.decline("computed dims");
  const int64_t rank = context.rank(0) + static_cast<int64_t>(first->size());
  for (const size_t i : {0, 1, 2}) inputs[i] = context.stacked(i);
  for (const size_t i : {3, 4, 5, 6}) {
    const auto dims = context.constantInts(i);
    if (!dims) return context.decline("computed dims");
    inputs[i] = context.constantOf(shiftDims(*dims, rank));
  }
  inputs[7] = context.emit("aten::add", {inputs[7], 1});
  return stackedResults(context.emitSame(inputs));
}

}  // namespace

RuleRows products() {
  return concatenated({
      rowsOf("contraction", tensordot, {"tensordot"}),
      rowsOf("contraction", inner, {"inner"}),
      rowsOf("contraction", kron, {"kron"}),
      rowsOf("contraction", vdot, {"vdot"}),
      rowsOf("contraction", trace, {"trace"}),
      rowsOf("contraction", addbmm, {"addbmm"}),
      rowsOf("contraction", bilinear, {"bilinear"}),
      rowsOf("contraction", trilinear, {"_trilinear"}),
      rowsOf("contraction", multiDot, {"linalg_multi_dot", "chain_matmul"}),
  });
}

}  // namespace chorus
