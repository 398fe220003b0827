// The original code of one member, for comparison: nothing of it went through the specialiser.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <optional>

#include "chorus/member.h"
#include "chorus/random.h"

namespace chorus {

class SoloMember {
 public:
  /// Reads the member's file again, with the member's tensors as its own, in `dtype` where they are
  /// floating.
  SoloMember(const Member& member, std::optional<at::ScalarType> dtype);

  /// The model's tensors in the order of Member::output. Dropouts draw from `random` (one member).
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs, bool training,
                                  const RandomContext& random);
  /// The tensor of each slot; undefined for constants.
  const std::vector<at::Tensor>& tensors() const { return tensors_; }

 private:
  torch::jit::Module module_;
  std::shared_ptr<Graph> code_;
  std::vector<std::string> names_;
  OutputTree output_;
  std::vector<at::Tensor> tensors_;
};

/// The first random op of the code that has no counter-based form; nullptr if there is none.
const Node* undrawableOp(const Member& member);

/// The tensors of a model's result, in the order of `tree`: [0] where the other mode has one.
void flattenResult(const torch::jit::IValue& value, const OutputTree& tree,
                   std::vector<at::Tensor>& tensors);

}  // namespace chorus
