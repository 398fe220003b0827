// Names and shapes of what the submodule `chorus` of a fused file holds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "chorus/fused_model.h"

namespace chorus {

/// Trainable parameters of one dtype: they form one flat [K,P].
struct DtypeGroup {
  at::ScalarType dtype;
  std::string suffix;  ///< "" for the dtype of the first trainable parameter, else e.g. "_f64"
  std::vector<size_t> members;  ///< indices into trainableSlots
  int64_t width = 0;            ///< P
};
std::vector<DtypeGroup> dtypeGroups(const FusedModel& model);

/// The optimizer's state tensors by name: those of `model.state`, else zeros. Throws Refused
/// (internal) where a shape is wrong.
std::map<std::string, at::Tensor> optimizerState(const FusedModel& model);

/// "constant_I" for slot `slot` of role Constant: I counts the constants.
std::string constantName(const FusedModel& model, size_t slot);

/// The loss of the model as code.
LossCode buildLoss(const FusedModel& model);

}  // namespace chorus
