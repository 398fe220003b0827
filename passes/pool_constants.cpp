#include <torch/csrc/jit/passes/constant_pooling.h>

#include "chorus/pass.h"

namespace chorus {

Pass pool_constants() {
  return {
      .name = "pool-constants",
      .summary = "makes equal constants one node, at the top of the graph",
      .description =
          "    %a = prim::Constant[value=1]()      %a = prim::Constant[value=1]()\n"
          "    %b = prim::Constant[value=1]()  ==>  uses of %b are uses of %a\n"
          "\n"
          "where type and value are equal: 1 and 1. stay apart. Constants inside blocks move out "
          "to the top.",
      .optional = false,
      .run = [](std::shared_ptr<torch::jit::Graph>& graph) { torch::jit::ConstantPooling(graph); },
  };
}

}  // namespace chorus
