#include "tools/python-module/function.h"

#include <torch/csrc/jit/runtime/interpreter.h>

#include "chorus/import.h"
#include "chorus/pass.h"
#include "lib/support/memory_file.h"

namespace chorus {

Function::Function(const std::string& archive) {
  const MemoryFile file(archive);
  ImportOptions options;
  options.mode = ModePolicy::AsTraced;
  options.name = "function";
  member_ = importTorchScript(file.path(), options);
}

BatchedGraph Function::batched(const std::vector<bool>& stacked) const {
  std::vector<bool> flags = stacked;
  flags.resize(member_.train.graph->inputs().size(), false);
  BatchedGraph made = batchGraph(*member_.train.graph, flags, /*stack_outputs=*/true);
  runPasses(made.graph, fusedPipeline());
  return made;
}

Function::Run Function::run(const std::vector<bool>& stacked,
                            const std::vector<at::Tensor>& tensors) const {
  if (stacked.size() != member_.train.n_inputs || tensors.size() != stacked.size()) {
    throw Refused(error("the function takes " + std::to_string(member_.train.n_inputs) +
                        " tensors, and there are " + std::to_string(tensors.size())));
  }
  const BatchedGraph made = batched(stacked);
  torch::jit::Stack stack(tensors.begin(), tensors.end());
  for (const TensorSlot& slot : member_.slots) stack.emplace_back(slot.value);
  const torch::jit::Code code(made.graph, "fused");
  torch::jit::InterpreterState(code).run(stack);
  Run run;
  for (const c10::IValue& value : stack) run.outputs.push_back(value.toTensor());
  run.decisions = made.decisions;
  return run;
}

std::string Function::text(const std::vector<bool>& stacked) const {
  return member_.train.graph->toString(false) + batched(stacked).graph->toString(false);
}

}  // namespace chorus
