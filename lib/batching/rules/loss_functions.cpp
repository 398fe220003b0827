#include "lib/batching/dims.h"
#include "lib/batching/families.h"
#include "lib/batching/fold.h"
#include "lib/batching/reduction.h"

namespace chorus {
namespace {

/// Every element's loss on the stacked form of all tensors, then the mean or sum per member.
/// loss(x [K,N], y [N], reduction) -> [K,N] -> [K]
RuleResult pointwise(RuleContext& context) {
  const auto reduction = reductionOf(context);
  if (!reduction) return context.decline("computed reduction");
  std::vector<size_t> tensors;
  for (size_t i = 0; i < context.size(); ++i) {
    if (context.isTensor(i)) tensors.push_back(i);
  }
  auto inputs = alignedInputs(context, tensors, {0, 1});
  if (!inputs) return context.decline("an operand's dtype is not known");
  const int64_t rank = largestRank(context, tensors);
  for (const size_t i : tensors) {
    // Some of these want equal sizes, and a shared tensor of rank 0 must not start to promote.
    if (context.operand(i).stacked) continue;
    const bool promotes = rank == 0 || context.rank(i) > 0 || context.dtype(i) == context.dtype(0);
    if (!promotes) return context.decline("a tensor of rank 0 and another dtype");
    inputs->at(i) = context.stackedAtRank(i, rank);
  }
  inputs->at(context.indexOf("reduction")) = context.constantOf(0);
  return stackedResults(
      {reducedPerMember(context, context.emitSame(*inputs)[0], rank, *reduction)});
}

/// Rows [N,...] or one row: K goes into N or takes its place. `row_rank`: dims of one row of
/// operand 0. Tensor arguments from `rows_end` on belong to all rows.
BatchingRule perRow(int64_t row_rank, size_t rows_end) {
  return [row_rank, rows_end](RuleContext& context) -> RuleResult {
    const auto reduction = reductionOf(context);
    if (!reduction) return context.decline("computed reduction");
    const int64_t rank = context.rank(0) - row_rank;
    if (rank != 0 && rank != 1) return context.decline("rows of another rank");
    std::vector<Value*> inputs = context.inputs();
    for (size_t i = 0; i < context.size(); ++i) {
      if (!context.isTensor(i)) continue;
      if (i >= rows_end) {
        if (context.operand(i).stacked) return context.decline("each member has its own weight");
        continue;
      }
      // [K,N,...] -> [(K N),...]; without N, [K,...], and a target [K,1] -> [K]
      inputs[i] = rank == 1 ? foldIntoBatch(context, context.stacked(i)) : context.stacked(i);
      const bool one_class = rank == 0 && i == 1 && context.op() == "aten::multi_margin_loss";
      if (one_class) inputs[i] = context.emit("aten::flatten", {inputs[i], 0, -1});
    }
    inputs[context.indexOf("reduction")] = context.constantOf(0);
    Value* each = context.emitSame(inputs)[0];
    if (rank == 1) each = unfoldFromBatch(context, each);
    return stackedResults({reducedPerMember(context, each, rank, *reduction)});
  };
}

/// cosine_embedding_loss(a [N,D] or [D], b, target [N] or [], margin, reduction)
RuleResult cosineEmbedding(RuleContext& context) {
  const bool rows = context.rank(2) == 1;
  if (context.rank(0) != context.rank(1) || context.rank(0) != (rows ? 2 : 1))
    return context.decline("inputs of different ranks");
  return perRow(1, 3)(context);
}

/// triplet_margin_loss(a, p, n, margin, p, eps, swap, reduction): over the last dim.
RuleResult tripletMargin(RuleContext& context) {
  const auto reduction = reductionOf(context);
  if (!reduction) return context.decline("computed reduction");
  const int64_t rank = largestRank(context, {0, 1, 2});
  if (rank == 0) return context.decline("tensors without dims");
  std::vector<Value*> inputs = context.inputs();
  for (const size_t i : {0, 1, 2}) inputs[i] = context.stackedAtRank(i, rank);
  inputs[context.indexOf("reduction")] = context.constantOf(0);
  return stackedResults(
      {reducedPerMember(context, context.emitSame(inputs)[0], rank - 1, *reduction)});
}

/// ctc_loss(log_probs [T,N,C], targets [N,S], input_lengths, target_lengths, blank, reduction,
/// zero_infinity): [K,T,N,C] -> [T,(K N),C]; the losses [(K N)] -> [K,N]
RuleResult ctc(RuleContext& context) {
  const auto reduction = reductionOf(context);
  if (!reduction) return context.decline("computed reduction");
  if (context.rank(0) != 3 || context.rank(1) != 2)
    return context.decline("no batch, or targets in one row");
  std::vector<Value*> inputs = context.inputs();
  Value* moved = context.emit("aten::movedim", {context.stacked(0), 0, 1});  // [K,T,..] -> [T,K,..]
  inputs[0] = context.emit("aten::flatten", {moved, 1, 2});
  inputs[1] = foldIntoBatch(context, context.stacked(1));
  for (const size_t i : {2, 3}) {
    inputs[i] = context.isTensor(i)
                    ? foldIntoBatch(context, context.stacked(i))
                    : context.emit("aten::mul", {context.operand(i).value, context.memberCount()});
  }
  inputs[context.indexOf("reduction")] = context.constantOf(0);
  Value* each = unfoldFromBatch(context, context.emitSame(inputs)[0]);
  if (*reduction == at::Reduction::Mean) {
    Value* lengths = context.isTensor(3) ? inputs[3] : context.emit("aten::tensor", {inputs[3]});
    lengths = unfoldFromBatch(context, context.emit("aten::clamp_min", {lengths, 1}));
    each = context.emit("aten::div", {each, lengths});
  }
  return stackedResults({reducedPerMember(context, each, 1, *reduction)});
}

}  // namespace

RuleRows loss_functions() {
  const char* family = "loss";
  return concatenated({
      rowsOf(family, pointwise,
             {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
              "binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss", "soft_margin_loss",
              "hinge_embedding_loss", "margin_ranking_loss"}),
      rowsOf(family, perRow(1, 2), {"multi_margin_loss", "multilabel_margin_loss"}),
      rowsOf(family, cosineEmbedding, {"cosine_embedding_loss"}),
      rowsOf(family, tripletMargin, {"triplet_margin_loss"}),
      rowsOf(family, ctc, {"ctc_loss"}),
  });
}

}  // namespace chorus
