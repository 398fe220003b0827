#include "lib/batching/dims.h"
#include "lib/batching/families.h"

namespace chorus {
namespace {

/// permute(x, dims): K stays in front.
RuleResult permute(RuleContext& context) {
  const auto dims = context.constantInts(1);
  if (!dims) return context.decline("computed dims");
  std::vector<int64_t> order = shiftDims(*dims, context.rank(0));
  order.insert(order.begin(), 0);
  return stackedResults({context.emit("aten::permute", {context.stacked(0), order})});
}

/// x.t(), x.T, x.mT
RuleResult reversed(RuleContext& context) {
  std::vector<int64_t> order = dimRange(1, context.rank(0));
  std::ranges::reverse(order);
  order.insert(order.begin(), 0);
  return stackedResults({context.emit("aten::permute", {context.stacked(0), order})});
}

RuleResult transposedMatrices(RuleContext& context) {
  if (context.rank(0) < 2) return context.decline("a matrix op on a tensor of rank below 2");
  return stackedResults({context.emit("aten::transpose", {context.stacked(0), -2, -1})});
}

/// diff(x, n, dim, prepend, append)
RuleResult diff(RuleContext& context) {
  const auto dim = context.constantInt(context.indexOf("dim"));
  if (!dim || context.rank(0) == 0) return context.decline("computed dim, or no dims");
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = context.stacked(0);
  inputs[context.indexOf("dim")] = context.constantOf(shiftDim(*dim, context.rank(0)));
  for (const char* part : {"prepend", "append"}) {
    const size_t i = context.indexOf(part);
    if (!context.isNone(i)) inputs[i] = context.stacked(i);
  }
  return stackedResults(context.emitSame(inputs));
}

/// _softmax_backward_data(grad, output, dim, dtype)
RuleResult softmaxBackward(RuleContext& context) {
  const auto dim = context.constantInt(2);
  if (!dim || context.rank(0) == 0) return context.decline("computed dim, or no dims");
  std::vector<Value*> inputs = context.inputs();
  for (const size_t i : {0, 1}) inputs[i] = context.stacked(i);
  inputs[2] = context.constantOf(shiftDim(*dim, context.rank(0)));
  return stackedResults(context.emitSame(inputs));
}

/// roll(x, shifts, dims); without dims the member is rolled as one row.
RuleResult roll(RuleContext& context) {
  const auto dims = context.constantInts(context.indexOf("dims"));
  if (!dims) return context.decline("computed dims");
  if (!dims->empty()) return dimShift({"dims"})(context);
  Value* x = withDim(context, 0);
  // [K,...] -> [K,P] -> [K,...]
  Value* row = context.emit("aten::flatten", {x, 1, -1});
  Value* rolled =
      context.emit("aten::roll", {row, context.operand(1).value, std::vector<int64_t>{1}});
  return stackedResults({context.emit("aten::view_as", {rolled, context.stacked(0)})});
}

/// An op on one fixed axis of the member, as `op(x, dims=[axis])`.
BatchingRule flipOf(int64_t axis) {
  return [axis](RuleContext& context) -> RuleResult {
    const std::vector<int64_t> dims = {shiftDim(axis, context.rank(0))};
    return stackedResults({context.emit("aten::flip", {context.stacked(0), dims})});
  };
}

/// msort(x): along the first dim.
RuleResult msort(RuleContext& context) {
  if (context.rank(0) == 0) return stackedResults({context.stacked(0)});
  return stackedResults({context.emitAll("aten::sort", {context.stacked(0), 1})[0]});
}

/// diagflat(x, offset): as a vector.
RuleResult diagflat(RuleContext& context) {
  Value* row = context.emit("aten::flatten", {withDim(context, 0), 1, -1});
  return stackedResults(
      {context.emit("aten::diag_embed", {row, context.operand(1).value, -2, -1})});
}

/// diag(x, offset): a vector becomes a matrix, a matrix its diagonal.
RuleResult diag(RuleContext& context) {
  Value* offset = context.operand(1).value;
  if (context.rank(0) == 1) {
    return stackedResults({context.emit("aten::diag_embed", {context.stacked(0), offset, -2, -1})});
  }
  return stackedResults({context.emit("aten::diagonal", {context.stacked(0), offset, 1, 2})});
}

}  // namespace

RuleRows dim_shift() {
  const char* family = "dim-shift";
  return concatenated({
      rowsOf(family, dimShift(),
             {"softmax", "log_softmax", "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin",
              "sort", "argsort", "topk", "glu", "select", "slice", "unflatten", "select_copy",
              "slice_copy", "_safe_softmax", "_softmax", "_log_softmax"}),
      rowsOf(family, dimShift({"dim"}, 1), {"unsqueeze", "unsqueeze_copy"}),
      rowsOf(family, dimShift({"dims"}), {"flip", "rot90"}),
      rowsOf(family, dimShift({"dimension"}), {"unfold", "unfold_copy"}),
      rowsOf(family, dimShift({"dim0", "dim1"}), {"transpose", "swapdims", "transpose_copy"}),
      rowsOf(family, dimShift({"axis0", "axis1"}), {"swapaxes"}),
      rowsOf(family, dimShift({"source", "destination"}), {"movedim", "moveaxis"}),
      rowsOf(family, dimShift({"dim1", "dim2"}), {"diagonal", "diagonal_copy"}),
      rowsOf(family, dimShift({"dim1", "dim2"}, 1), {"diag_embed"}),
      rowsOf(family, permute, {"permute", "permute_copy"}),
      rowsOf(family, reversed, {"t", "t_copy", "numpy_T"}),
      rowsOf(family, transposedMatrices, {"mT"}),
      rowsOf(family, diff, {"diff"}),
      rowsOf(family, roll, {"roll"}),
      rowsOf(family, flipOf(0), {"flipud"}),
      rowsOf(family, flipOf(1), {"fliplr"}),
      rowsOf(family, diag, {"diag"}),
      rowsOf(family, softmaxBackward, {"_softmax_backward_data", "_log_softmax_backward_data"}),
      rowsOf(family, diagflat, {"diagflat"}),
      rowsOf(family, msort, {"msort"}),
  });
}

}  // namespace chorus
