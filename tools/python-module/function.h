// One traced function, imported once and batched for any choice of stacked inputs: what the
// conformance driver asks, without stacking parameters or writing a fused file.
#pragma once

#include <string>
#include <vector>

#include "chorus/batch_graph.h"

namespace chorus {

class Function {
 public:
  struct Run {
    std::vector<at::Tensor> outputs;  ///< [K,...] each
    std::vector<Decision> decisions;
  };

  /// Of an archive's bytes. Flags stay as they were traced. Throws Refused.
  explicit Function(const std::string& archive);

  /// Runs the function fused. Tensor i is [K,...] where `stacked[i]`, else shared by all members.
  Run run(const std::vector<bool>& stacked, const std::vector<at::Tensor>& tensors) const;

  /// The fused graph as text.
  std::string text(const std::vector<bool>& stacked) const;

 private:
  BatchedGraph batched(const std::vector<bool>& stacked) const;

  Member member_;
};

}  // namespace chorus
