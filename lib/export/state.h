// Names and shapes of what the submodule `chorus` of a fused file holds.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "chorus/fused_model.h"

namespace chorus {

/// Trainable parameters of one dtype and one parameter group: they form one flat [K,P].
struct DtypeGroup {
  at::ScalarType dtype;
  size_t hyper = 0;    ///< 0: OptimizerSpec::values, i: its groups[i - 1]
  std::string suffix;  ///< "" for the dtype of the first trainable parameter, else e.g. "_f64";
                       ///< "_g1" behind it
  std::vector<size_t> members;  ///< indices into trainableSlots
  std::vector<int64_t> starts;  ///< where each of them begins in the P
  int64_t width = 0;            ///< P
};
std::vector<DtypeGroup> dtypeGroups(const FusedModel& model);

/// "" for the values of the optimizer itself, "_gI" for those of its I-th parameter group.
std::string hyperSuffix(size_t hyper);
/// The values of the hyperparameters of a DtypeGroup.
const std::map<std::string, std::vector<double>>& hyperValues(const OptimizerSpec& spec,
                                                              size_t hyper);

/// The optimizer's state tensors by name: those of `model.state`, else zeros. Throws Refused
/// (internal) where a shape is wrong.
std::map<std::string, at::Tensor> optimizerState(const FusedModel& model);

/// Neighbouring members as a model of their own, on views of the same tensors: training it moves
/// those of `model`.
FusedModel viewMembers(const FusedModel& model, size_t begin, size_t count);

/// "constant_I" for slot `slot` of role Constant: I counts the constants.
std::string constantName(const FusedModel& model, size_t slot);

/// The loss of the model as code.
LossCode buildLoss(const FusedModel& model);

}  // namespace chorus
