#include "lib/batching/script_code.h"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/lower_tuples.h>
#include <torch/csrc/jit/passes/peephole.h>

#include "lib/support/inline_calls.h"

namespace chorus {

std::vector<Value*> emitScript(RuleContext& context, const std::string& source,
                               const std::string& name, const std::vector<Value*>& inputs) {
  torch::jit::CompilationUnit unit;
  unit.define(std::nullopt, source, torch::jit::nativeResolver(), nullptr);
  const auto code = torch::jit::toGraphFunction(unit.get_function(name)).graph()->copy();
  inlineCalls(*code);
  torch::jit::LowerSimpleTuples(code);
  torch::jit::EliminateDeadCode(code);
  std::vector<Value*> results = torch::jit::insertGraph(context.graph(), *code, inputs);
  if (results.size() != 1) return results;
  Node* packed = results[0]->node();
  if (packed->kind() != c10::prim::TupleConstruct) return results;
  results = packed->inputs().vec();
  packed->destroy();
  return results;
}

}  // namespace chorus
