#include <cmath>
#include <iomanip>
#include <sstream>

#include "chorus/diagnostics.h"
#include "chorus/optimizer.h"

namespace chorus {

const std::vector<OptimizerDefinition>&
optimizerTable();  // generated from the files of this folder

const std::vector<OptimizerDefinition>& allOptimizers() { return optimizerTable(); }

const OptimizerDefinition& findOptimizer(const std::string& name) {
  std::vector<std::string> names;
  for (const OptimizerDefinition& definition : allOptimizers()) {
    if (definition.name == name) return definition;
    names.push_back(definition.name);
  }
  if (name == "lbfgs") {
    throw Refused(
        unsupported("the optimizer 'lbfgs': it evaluates the loss several times in a step, "
                    "how often is each member's own, so members have no step in common")
            .helpWith("train with another one, then let torch.optim.LBFGS finish each "
                      "member that chorus-split writes"));
  }
  Message message = usage("there is no optimizer '" + name + "'");
  if (const std::string near = nearest(name, names); !near.empty()) {
    message.helpWith("did you mean '" + near + "'?");
  }
  throw Refused(message);
}

namespace {

std::string numberText(double value) {
  std::ostringstream text;
  text << std::setprecision(12) << value;
  return text.str();
}

std::string memberText(size_t member, size_t k) {
  return k == 1 ? "" : "member " + std::to_string(member) + ": ";
}

void checkValues(const Hyperparameter& h, const std::vector<double>& values, size_t k) {
  if (values.size() != k) {
    throw Refused(error("'" + h.name + "' has " + std::to_string(values.size()) + " values for " +
                        std::to_string(k) + " members"));
  }
  for (size_t i = 0; i < k; ++i) {
    const std::string what = memberText(i, k) + h.name + " = " + numberText(values[i]);
    if (!std::isfinite(values[i])) throw Refused(error(what + " is not a finite number"));
    if (values[i] < h.minimum) {
      throw Refused(error(what + " is less than " + numberText(h.minimum)));
    }
    if (h.below && values[i] >= *h.below) {
      throw Refused(error(what + " is not below " + numberText(*h.below)));
    }
  }
}

}  // namespace

void checkOptimizer(const OptimizerSpec& spec, size_t k) {
  const OptimizerDefinition& definition = findOptimizer(spec.name);
  std::set<std::string> known;
  for (const Hyperparameter& h : definition.hyperparameters) {
    known.insert(h.name);
    const auto values = spec.values.find(h.name);
    if (values == spec.values.end()) {
      throw Refused(error("the optimizer '" + spec.name + "' needs a value for '" + h.name + "'"));
    }
    checkValues(h, values->second, k);
  }
  for (const auto& [name, values] : spec.values) {
    if (known.count(name)) continue;
    throw Refused(error("the optimizer '" + spec.name + "' has no '" + name + "'"));
  }
  for (const auto& [flag, on] : spec.flags) {
    if (std::count(definition.flags.begin(), definition.flags.end(), flag)) continue;
    throw Refused(error("the optimizer '" + spec.name + "' has no flag '" + flag + "'"));
  }
  for (size_t i = 0; i < k && definition.problem; ++i) {
    const std::string problem = definition.problem(spec, i);
    if (!problem.empty()) throw Refused(error(memberText(i, k) + problem));
  }
}

std::vector<StateSlot> stateSlots(const OptimizerSpec& spec) {
  const OptimizerDefinition& definition = findOptimizer(spec.name);
  std::vector<StateSlot> slots;
  for (const std::string& name : definition.slots) slots.push_back({name});
  for (const std::string& name : definition.scalar_slots) slots.push_back({name, true});
  for (const std::string& flag : definition.flags) {
    const auto slot = definition.flag_slots.find(flag);
    if (slot == definition.flag_slots.end()) continue;
    const auto on = spec.flags.find(flag);
    slots.push_back({slot->second, false, on != spec.flags.end() && on->second});
  }
  return slots;
}

}  // namespace chorus
