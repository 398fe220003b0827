#include "lib/batching/families.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

/// Ops whose tensor arguments all begin with N, or lack it: K goes into N or takes its place.
/// `rank`: of operand 0 with N. Arguments from `end` on, and stacked ones among them, are not
/// images.
BatchingRule overImages(int64_t rank, size_t end) {
  return [rank, end](RuleContext& context) -> RuleResult {
    const bool batch = context.rank(0) == rank;
    if (!batch && context.rank(0) != rank - 1) return context.decline("an image of another rank");
    std::vector<Value*> inputs = context.inputs();
    for (size_t i = 0; i < context.size(); ++i) {
      if (!context.isTensor(i)) continue;
      if (i >= end && context.operand(i).stacked)
        return context.decline("each member has its own argument");
      if (i < end)
        inputs[i] = batch ? foldIntoBatch(context, context.stacked(i)) : context.stacked(i);
    }
    std::vector<Value*> outputs = context.emitSame(inputs);
    for (Value*& output : outputs) output = batch ? unfoldFromBatch(context, output) : output;
    return stackedResults(outputs);
  };
}

/// fractional_max_pool2d(x, kernel, output, samples [N,C,2]): without N, samples have one.
BatchingRule fractional(int64_t rank) {
  return [rank](RuleContext& context) -> RuleResult {
    if (context.rank(0) != rank) return context.decline("an image without batch dim");
    return overImages(rank, context.size())(context);
  };
}

}  // namespace

RuleRows unpooling() {
  const char* family = "fold-into-N";
  return concatenated({
      rowsOf(family, overImages(4, 2), {"max_unpool2d"}),
      rowsOf(family, overImages(5, 2), {"max_unpool3d"}),
      rowsOf(family, overImages(4, 8), {"max_pool2d_with_indices_backward"}),
      rowsOf(family, overImages(4, 1), {"im2col"}),
      rowsOf(family, overImages(3, 1), {"col2im"}),
      rowsOf(family, fractional(4), {"fractional_max_pool2d"}),
      rowsOf(family, fractional(5), {"fractional_max_pool3d"}),
  });
}

}  // namespace chorus
