#include <limits>

#include "chorus/optimizer.h"
#include "lib/optimizers/momentum.h"

namespace chorus::optimizers {

OptimizerDefinition sgd() {
  OptimizerDefinition d;
  d.name = "sgd";
  d.summary = "stochastic gradient descent with momentum";
  d.hyperparameters = {{"lr", 1e-3}, {"momentum", 0.0}, {"dampening", 0.0}, {"weight_decay", 0.0}};
  d.hyperparameters[2].minimum = -std::numeric_limits<double>::infinity();
  d.flags = {"nesterov", "maximize"};
  d.slots = {"momentum_buffer"};
  d.problem = [](const OptimizerSpec& spec, size_t k) -> std::string {
    const auto nesterov = spec.flags.find("nesterov");
    if (nesterov == spec.flags.end() || !nesterov->second) return "";
    if (spec.values.at("momentum")[k] == 0) return "nesterov needs a momentum above 0";
    return spec.values.at("dampening")[k] == 0 ? "" : "nesterov needs a dampening of 0";
  };
  d.body = R"(
    t = p.dtype
    if maximize:
        g = -g
    g = g + weight_decay.to(t) * p
)" + std::string(kMomentumStep);
  return d;
}

}  // namespace chorus::optimizers
