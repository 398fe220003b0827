#include "chorus/optimizer.h"

namespace chorus::optimizers {

OptimizerDefinition adadelta() {
  OptimizerDefinition d;
  d.name = "adadelta";
  d.summary = "rates from the ratio of past moves and gradients";
  d.hyperparameters = {{"lr", 1.0}, {"rho", 0.9}, {"eps", 1e-6}, {"weight_decay", 0.0}};
  d.flags = {"maximize"};
  d.slots = {"square_avg", "acc_delta"};
  d.problem = [](const OptimizerSpec& spec, size_t k) -> std::string {
    return spec.values.at("rho")[k] > 1 ? "rho is above 1" : "";
  };
  d.body = R"(
    t = p.dtype
    if maximize:
        g = -g
    g = g + weight_decay.to(t) * p
    square_avg = torch.addcmul(square_avg * rho.to(t), (1 - rho).to(t) * g, g)
    delta = (acc_delta + eps.to(t)).sqrt() / (square_avg + eps.to(t)).sqrt() * g
    acc_delta = torch.addcmul(acc_delta * rho.to(t), (1 - rho).to(t) * delta, delta)
    return p - lr.to(t) * delta, square_avg, acc_delta
)";
  return d;
}

}  // namespace chorus::optimizers
