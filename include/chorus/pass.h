// A pass: one rewrite of a graph, one file of passes/, one function named like the file that returns this record.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace chorus {

struct Pass {
  std::string name;     ///< as in `chorus-opt --NAME` and `--disable NAME`
  std::string summary;  ///< one line
  std::string description;  ///< before ==> after, and the conditions; printed in docs/reference/passes.md
  bool optional = true;     ///< may be disabled
  std::function<void(std::shared_ptr<torch::jit::Graph>&)> run;
};

const std::vector<Pass>& allPasses();
const Pass* findPass(const std::string& name);

/// The lists of pass names, in order: passes/pipeline.cpp.
const std::vector<std::string>& canonicalPipeline();  ///< after specialisation, on a member's graph
const std::vector<std::string>& fusedPipeline();      ///< after batching

/// Runs the named passes, without the disabled ones; lints the graph after each.
void runPasses(std::shared_ptr<torch::jit::Graph>& graph, const std::vector<std::string>& names,
               const std::set<std::string>& disabled = {});

}  // namespace chorus
