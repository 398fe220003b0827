#include "chorus/pass.h"
#include "passes/split_dropouts.h"

namespace chorus {
namespace {

void run(std::shared_ptr<torch::jit::Graph>& graph) {
  splitRecurrent(graph, true);
  splitAttention(graph, true);
}

}  // namespace

Pass split_idle_dropouts() {
  return {
      .name = "split-idle-dropouts",
      .summary = "split-recurrent and split-attention where the probability is 0, too",
      .description =
          "    %y = aten::scaled_dot_product_attention(%q, %k, %v, %mask, 0., False, None, False)\n"
          "    ==>\n"
          "    ...\n"
          "    %w = aten::dropout(aten::softmax(%s, -1), 0., True)\n"
          "    %y = aten::matmul(%w, %v)\n"
          "\n"
          "For train graphs of members that are fused with others which drop there: the "
          "probabilities are then one number per\n"
          "member.",
      .optional = false,
      .run = run,
  };
}

}  // namespace chorus
