#include "chorus/batching_rule.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

// [N,(C r r),H,W] -> [N,C,(H r),(W r)] and back keep K outermost in the channels; without N, K
// takes its place.
RuleRow shuffleRow(const std::string& op) {
  const auto rule = [](RuleContext& context) -> RuleResult {
    if (context.rank(0) == 4) return onMergedChannels(context);
    std::vector<Value*> inputs = context.inputs();
    inputs[0] = context.stacked(0);
    return stackedResults(context.emitSame(inputs));
  };
  return {op, rule, "grouped"};
}

// Ops that mix channels.
RuleRow foldedRow(const std::string& op) {
  const auto rule = [](RuleContext& context) -> RuleResult {
    if (context.rank(0) < 3) return std::nullopt;
    return onFoldedBatch(context);
  };
  return {op, rule, "fold-into-N"};
}

// grid_sampler(input [N,C,H,W], grid [N,H,W,2], ...): both with K in N
RuleResult gridSampler(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  for (size_t i : {0, 1}) inputs[i] = foldIntoBatch(context, context.stacked(i));
  return stackedResults({unfoldFromBatch(context, context.emitSame(inputs)[0])});
}

// affine_grid_generator(theta [N,2,3], size, align_corners): N of `size` is K N
RuleResult affineGrid(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = foldIntoBatch(context, context.stacked(0));
  Value* rows = context.intList({context.emit("aten::size", {inputs[0], 0})});
  inputs[1] = context.emit(
      "aten::add", {rows, context.emit("aten::slice", {inputs[1], 1, context.constantOf({}), 1})});
  return stackedResults({unfoldFromBatch(context, context.emitSame(inputs)[0])});
}

}  // namespace

RuleRows resize() {
  return {
      perChannelRow("aten::upsample_nearest1d", 1),
      perChannelRow("aten::upsample_nearest2d", 2),
      perChannelRow("aten::upsample_nearest3d", 3),
      perChannelRow("aten::_upsample_nearest_exact1d", 1),
      perChannelRow("aten::_upsample_nearest_exact2d", 2),
      perChannelRow("aten::_upsample_nearest_exact3d", 3),
      perChannelRow("aten::upsample_linear1d", 1),
      perChannelRow("aten::upsample_bilinear2d", 2),
      perChannelRow("aten::upsample_trilinear3d", 3),
      perChannelRow("aten::upsample_bicubic2d", 2),
      perChannelRow("aten::_upsample_bilinear2d_aa", 2),
      perChannelRow("aten::_upsample_bicubic2d_aa", 2),
      shuffleRow("aten::pixel_shuffle"),
      shuffleRow("aten::pixel_unshuffle"),
      foldedRow("aten::channel_shuffle"),
      foldedRow("aten::native_channel_shuffle"),
      {"aten::affine_grid_generator", affineGrid, "fold-into-N"},
      {"aten::grid_sampler", gridSampler, "fold-into-N"},
      {"aten::grid_sampler_2d", gridSampler, "fold-into-N"},
      {"aten::grid_sampler_3d", gridSampler, "fold-into-N"},
  };
}

}  // namespace chorus
