#include "lib/optimizers/adam.h"

namespace chorus::optimizers {

OptimizerDefinition adamLike(const std::string& decay, double weight_decay) {
  OptimizerDefinition d;
  d.hyperparameters = {{"lr", 1e-3},
                       {"beta1", 0.9, 0, 1.0},
                       {"beta2", 0.999, 0, 1.0},
                       {"eps", 1e-8},
                       {"weight_decay", weight_decay}};
  d.flags = {"amsgrad", "maximize"};
  d.slots = {"exp_avg", "exp_avg_sq"};
  d.flag_slots = {{"amsgrad", "max_exp_avg_sq"}};
  d.body = R"(
    t = p.dtype
    if maximize:
        g = -g
)" + decay +
           R"(
    exp_avg = torch.lerp(exp_avg, g, (1 - beta1).to(t))
    exp_avg_sq = torch.addcmul(exp_avg_sq * beta2.to(t), (1 - beta2).to(t) * g, g)
    largest = exp_avg_sq
    if amsgrad:
        max_exp_avg_sq = torch.maximum(max_exp_avg_sq, exp_avg_sq)
        largest = max_exp_avg_sq
    step_size = lr / (1 - beta1 ** step)
    correction = torch.sqrt(1 - beta2 ** step)
    denominator = largest.sqrt() / correction.to(t) + eps.to(t)
    p = torch.addcdiv(p, exp_avg * (-step_size).to(t), denominator)
    return p, exp_avg, exp_avg_sq, max_exp_avg_sq
)";
  return d;
}

OptimizerDefinition adam() {
  OptimizerDefinition d = adamLike("    g = g + weight_decay.to(t) * p\n", 0.0);
  d.name = "adam";
  d.summary = "adaptive moments";
  return d;
}

}  // namespace chorus::optimizers
