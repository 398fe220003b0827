#include <torch/csrc/jit/passes/shape_analysis.h>

#include "chorus/pass.h"

namespace chorus {

Pass erase_shapes() {
  return {
      .name = "erase-shapes",
      .summary = "forgets dtypes and sizes of all values",
      .description =
          "    %y : Float(*, *, 3) = ...  ==>  %y : Tensor = ...\n"
          "\n"
          "Types hold the sizes of the example inputs. LibTorch's executor would take them as "
          "facts, but the fused\n"
          "graph also runs on other sizes and dtypes.",
      .optional = false,
      .run =
          [](std::shared_ptr<torch::jit::Graph>& graph) {
            torch::jit::EraseShapeInformation(graph);
          },
  };
}

}  // namespace chorus
