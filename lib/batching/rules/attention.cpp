#include "chorus/batching_rule.h"
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

}  // namespace

RuleRows attention() { return {{"aten::scaled_dot_product_attention", rule, "fold-into-N"}}; }

}  // namespace chorus
