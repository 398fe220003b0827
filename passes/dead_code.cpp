#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include "chorus/pass.h"

namespace chorus {

Pass dead_code() {
  return {
      .name = "dead-code",
      .summary = "removes nodes whose results no output needs",
      .description =
          "    %b = aten::relu(%x)        ==>  (nothing)\n"
          "\n"
          "where %b reaches no output. Inputs stay, used or not: they are a member's tensors in "
          "slot order.\n"
          "Random ops without a use go as well: draws are counted per node, not taken from one "
          "stream.",
      .optional = false,
      .run =
          [](std::shared_ptr<torch::jit::Graph>& graph) { torch::jit::EliminateDeadCode(graph); },
  };
}

}  // namespace chorus
