#include "chorus/optimizer.h"

namespace chorus::optimizers {

OptimizerDefinition lion() {
  OptimizerDefinition d;
  d.name = "lion";
  d.summary = "the sign of an interpolated momentum, with decoupled weight decay";
  d.hyperparameters = {
      {"lr", 1e-4}, {"beta1", 0.9, 0, 1.0}, {"beta2", 0.99, 0, 1.0}, {"weight_decay", 0.0}};
  d.flags = {"maximize"};
  d.slots = {"exp_avg"};
  d.body = R"(
    t = p.dtype
    if maximize:
        g = -g
    p = p * (1 - lr * weight_decay).to(t)
    move = (exp_avg * beta1.to(t) + g * (1 - beta1).to(t)).sign()
    return p - lr.to(t) * move, torch.lerp(exp_avg, g, (1 - beta2).to(t))
)";
  return d;
}

}  // namespace chorus::optimizers
