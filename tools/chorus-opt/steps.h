// What chorus-opt does to a graph, in the order of the command line.
#pragma once

#include <string>
#include <vector>

namespace chorus {

/// `--layout` (a pass), `--batch=0,2-5` (batching) or `--canonical`, `--fused` (a pipeline: its
/// passes).
struct Step {
  std::string pass;  ///< empty: batching
  std::vector<size_t> stacked;
};

/// Takes the steps out of the arguments, in order; the others stay. Throws Refused (usage).
std::vector<Step> takeSteps(std::vector<std::string>& arguments);

/// The table of passes: one line each, or a page of Markdown (docs/reference/passes.md).
std::string passTableText();
std::string passTableMarkdown();

}  // namespace chorus
