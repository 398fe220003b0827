// Optimizers: one file of lib/optimizers/ each, defining one function named after it that returns its definition.
//
// An update is written once, for all K members and all parameters: the parameters of one dtype are concatenated to
// p [K,P], their gradients to g [K,P], every state slot is one buffer [K,P], every hyperparameter a [K] fp64 tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace chorus {

/// One number per member and step, e.g. lr. `minimum`/`maximum` bound it as torch.optim does.
struct Hyperparameter {
  std::string name;                    ///< torch's own argument name, e.g. "weight_decay"; pairs are "beta1", "beta2"
  std::optional<double> default_value; ///< none: must be given
  double minimum = 0;
  std::optional<double> below;         ///< exclusive upper bound
};

struct OptimizerDefinition {
  std::string name;
  std::string summary;
  std::vector<Hyperparameter> hyperparameters;
  std::vector<std::string> flags;        ///< e.g. "nesterov"; hold for all members
  std::vector<std::string> slots;        ///< state, each [K,P] of the parameters' dtype, zero at the start
  /// Slots that a flag adds, e.g. {"amsgrad", "max_exp_avg_sq"}.
  std::map<std::string, std::string> flag_slots;
  /// TorchScript body of
  ///
  ///     def chorus_rule(self, p: Tensor, g: Tensor, step: Tensor, SLOT: Tensor..., HYPER: Tensor..., FLAG: bool...)
  ///         -> Tuple[Tensor, SLOT...]
  ///
  /// SLOT: `slots`, then `scalar_slots`, then the slots of `flag_slots` in the order of `flags` (where the flag is off, a
  /// stand-in that is not stored). p, g, slots: [K,P]. step: [K,1] fp64, the number of this update, from 1. HYPER and scalar
  /// slots: [K,1] fp64. Returns the new p and the new slots as new tensors (never in place, so that inactive members can be
  /// masked by selection). Scalar arithmetic stays in fp64 on [K,1] and is cast to p's dtype where it meets a [K,P] tensor,
  /// which is what torch.optim does. p is never f16 or bf16: the caller computes those in f32.
  std::string body;
  /// The rule needs each parameter by itself (norms, matrices): it is called per parameter with p, g and slots [K,...] in
  /// the parameter's shape, step, HYPER and scalar slots [K,1,...] of the same rank, and scalar slots are per parameter.
  bool per_parameter = false;
  /// State of one number per member, [K,1] fp64, zero at the start (step == 1 tells the first update).
  std::vector<std::string> scalar_slots;
  /// What is wrong with the values of member k beyond the bounds above, or ""; e.g. nesterov without momentum.
  std::function<std::string(const struct OptimizerSpec&, size_t k)> problem;
};

/// Parameters with values of their own, e.g. biases without decay.
struct ParameterGroup {
  std::vector<std::string> parameters;  ///< names of the prototype's
  std::map<std::string, std::vector<double>> values;  ///< every hyperparameter, K entries each
  bool operator==(const ParameterGroup&) const = default;
};

/// `--optimizer NAME` with its values: one per member.
struct OptimizerSpec {
  std::string name;
  std::map<std::string, std::vector<double>> values;  ///< every hyperparameter of the definition, K entries each
  std::map<std::string, bool> flags;
  std::vector<ParameterGroup> groups;  ///< parameters in none of them take `values`
};

const std::vector<OptimizerDefinition>& allOptimizers();
/// Throws Refused (usage) with the nearest name.
const OptimizerDefinition& findOptimizer(const std::string& name);

/// Throws Refused (error) naming the first value that the optimizer does not take: a hyperparameter it does not have or
/// that is missing, a count other than `k`, a value out of bounds or not finite, a flag it does not have.
void checkOptimizer(const OptimizerSpec& spec, size_t k);

/// The state tensors a spec needs, in the order of the rule's SLOT arguments: name, and whether it is one number per member.
struct StateSlot {
  std::string name;
  bool scalar = false;
  bool stored = true;  ///< false: its flag is off
};
std::vector<StateSlot> stateSlots(const OptimizerSpec& spec);

}  // namespace chorus
