#include "chorus/optimizer.h"

namespace chorus::optimizers {

OptimizerDefinition adagrad() {
  OptimizerDefinition d;
  d.name = "adagrad";
  d.summary = "rates that shrink with the sum of squared gradients";
  d.hyperparameters = {{"lr", 1e-2},
                       {"lr_decay", 0.0},
                       {"weight_decay", 0.0},
                       {"initial_accumulator_value", 0.0},
                       {"eps", 1e-10}};
  d.flags = {"maximize"};
  d.slots = {"sum"};
  d.body = R"(
    t = p.dtype
    if maximize:
        g = -g
    g = g + weight_decay.to(t) * p
    start = torch.zeros_like(p) + initial_accumulator_value.to(t)
    sum = torch.addcmul(torch.where(step == 1, start, sum), g, g)
    rate = lr / (1 + (step - 1) * lr_decay)
    return torch.addcdiv(p, g * (-rate).to(t), sum.sqrt() + eps.to(t)), sum
)";
  return d;
}

}  // namespace chorus::optimizers
