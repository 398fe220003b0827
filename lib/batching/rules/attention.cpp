#include <limits>

#include "chorus/batching_rule.h"
#include "lib/batching/dims.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

// scaled_dot_product_attention(query, key, value, attn_mask?, dropout_p, is_causal, *, scale,
// enable_gqa)
constexpr size_t kMask = 3, kDropout = 4;

RuleResult rule(RuleContext& context) {
  if (!isNumber(context, kDropout, 0)) return context.decline("dropout inside the op");
  const int64_t rank = context.rank(0);
  if (context.rank(1) != rank || context.rank(2) != rank) return context.decline("ranks differ");
  const bool stacked_mask = isStacked(context, kMask);
  const bool deep_mask = !context.isNone(kMask) && context.rank(kMask) >= rank;
  // Kernels take [N,H,L,E]: K goes into N, where no mask stands in the way.
  const bool fold = rank == 4 && !stacked_mask && !deep_mask;
  std::vector<Value*> inputs = context.inputs();
  for (size_t i : {0, 1, 2}) {
    inputs[i] = context.stacked(i);
    if (fold) inputs[i] = foldIntoBatch(context, inputs[i]);
  }
  if (stacked_mask) inputs[kMask] = context.stackedAtRank(kMask, rank);  // [K,L,S] -> [K,1,1,L,S]
  Value* y = context.emitSame(inputs)[0];
  return stackedResults({fold ? unfoldFromBatch(context, y) : y});
}

/// _masked_softmax(x, mask, dim?, mask_type?): true is left out. Types: 0 a mask [L,L] of
/// x [N,H,L,L], 1 a mask [N,L], else one of x's sizes.
RuleResult maskedSoftmax(RuleContext& context) {
  const auto dim = context.constant(2), type = context.constant(3);
  if (!dim || !type) return context.decline("computed arguments");
  const int64_t rank = context.rank(0);
  if (rank == 0) return context.decline("a tensor without dims");
  Value* mask = context.stacked(1);
  if (type->isInt() && type->toInt() == 1) {  // [K,N,L] -> [K,N,1,1,L]
    for (int64_t d = context.rank(1); d < rank; ++d)
      mask = context.emit("aten::unsqueeze", {mask, -2});
  } else {
    mask = context.stackedAtRank(1, rank);
  }
  const double none = -std::numeric_limits<double>::infinity();
  Value* kept = context.emit("aten::masked_fill", {context.stacked(0), mask, none});
  const int64_t axis = shiftDim(dim->isNone() ? -1 : dim->toInt(), rank);
  return stackedResults({context.emit("aten::softmax", {kept, axis})});
}

}  // namespace

RuleRows attention() {
  return {{"aten::scaled_dot_product_attention", rule, "fold-into-N"},
          {"aten::_masked_softmax", maskedSoftmax, "dim-shift"}};
}

}  // namespace chorus
