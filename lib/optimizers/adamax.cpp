#include "chorus/optimizer.h"

namespace chorus::optimizers {

OptimizerDefinition adamax() {
  OptimizerDefinition d;
  d.name = "adamax";
  d.summary = "Adam with the infinity norm";
  d.hyperparameters = {{"lr", 2e-3},
                       {"beta1", 0.9, 0, 1.0},
                       {"beta2", 0.999, 0, 1.0},
                       {"eps", 1e-8},
                       {"weight_decay", 0.0}};
  d.flags = {"maximize"};
  d.slots = {"exp_avg", "exp_inf"};
  d.body = R"(
    t = p.dtype
    if maximize:
        g = -g
    g = g + weight_decay.to(t) * p
    exp_avg = torch.lerp(exp_avg, g, (1 - beta1).to(t))
    exp_inf = torch.maximum(exp_inf * beta2.to(t), g.abs() + eps.to(t))
    rate = lr / (1 - beta1 ** step)
    return torch.addcdiv(p, exp_avg * (-rate).to(t), exp_inf), exp_avg, exp_inf
)";
  return d;
}

}  // namespace chorus::optimizers
