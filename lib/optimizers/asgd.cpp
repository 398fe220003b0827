#include <limits>

#include "chorus/optimizer.h"

namespace chorus::optimizers {

// torch.optim keeps eta and mu in f32, whatever the parameters are: .to(6).to(7) rounds as it does.
OptimizerDefinition asgd() {
  OptimizerDefinition d;
  d.name = "asgd";
  d.summary = "averaged stochastic gradient descent";
  d.hyperparameters = {
      {"lr", 1e-2}, {"lambd", 1e-4}, {"alpha", 0.75}, {"t0", 1e6}, {"weight_decay", 0.0}};
  d.flags = {"maximize"};
  d.slots = {"ax"};
  d.scalar_slots = {"eta", "mu"};
  for (const size_t i : {1, 2, 3}) {
    d.hyperparameters[i].minimum = -std::numeric_limits<double>::infinity();
  }
  d.body = R"(
    t = p.dtype
    if maximize:
        g = -g
    g = g + weight_decay.to(t) * p
    eta = torch.where(step == 1, lr.to(6).to(7), eta)
    mu = torch.where(step == 1, torch.ones_like(mu), mu)
    p = p * (1 - lambd * eta).to(t) - eta.to(t) * g
    ax = torch.where(mu == 1, p, ax + (p - ax) * mu.to(t))
    eta = (lr / (1 + lambd * lr * step) ** alpha).to(6).to(7)
    mu = (1 / torch.clamp(step - t0, 1)).to(6).to(7)
    return p, ax, eta, mu
)";
  return d;
}

}  // namespace chorus::optimizers
