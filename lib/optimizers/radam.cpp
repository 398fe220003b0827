#include "chorus/optimizer.h"

namespace chorus::optimizers {

OptimizerDefinition radam() {
  OptimizerDefinition d;
  d.name = "radam";
  d.summary = "Adam with a rectified adaptive rate";
  d.hyperparameters = {{"lr", 1e-3},
                       {"beta1", 0.9, 0, 1.0},
                       {"beta2", 0.999, 0, 1.0},
                       {"eps", 1e-8},
                       {"weight_decay", 0.0}};
  d.flags = {"decoupled_weight_decay", "maximize"};
  d.slots = {"exp_avg", "exp_avg_sq"};
  d.body = R"(
    t = p.dtype
    if maximize:
        g = -g
    if decoupled_weight_decay:
        p = p * (1 - lr * weight_decay).to(t)
    else:
        g = g + weight_decay.to(t) * p
    exp_avg = torch.lerp(exp_avg, g, (1 - beta1).to(t))
    exp_avg_sq = torch.addcmul(exp_avg_sq * beta2.to(t), (1 - beta2).to(t) * g, g)
    correction2 = 1 - beta2 ** step
    m = exp_avg / (1 - beta1 ** step).to(t)
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * step * beta2 ** step / correction2
    rectified = length > 5.0
    safe = torch.where(rectified, length, 6.0)
    ratio = (safe - 4) * (safe - 2) * longest / ((longest - 4) * (longest - 2) * safe)
    rate = torch.sqrt(torch.where(rectified, ratio, 1.0))
    adaptive = torch.sqrt(correction2).to(t) / (exp_avg_sq.sqrt() + eps.to(t))
    move = torch.where(rectified, m * lr.to(t) * adaptive * rate.to(t), m * lr.to(t))
    return p - move, exp_avg, exp_avg_sq
)";
  return d;
}

}  // namespace chorus::optimizers
