#include "chorus/optimizer.h"

namespace chorus::optimizers {

// torch.optim keeps mu_product in f32, whatever the parameters are: .to(6).to(7) rounds as it does.
OptimizerDefinition nadam() {
  OptimizerDefinition d;
  d.name = "nadam";
  d.summary = "Adam with Nesterov momentum";
  d.hyperparameters = {{"lr", 2e-3},  {"beta1", 0.9, 0, 1.0}, {"beta2", 0.999, 0, 1.0},
                       {"eps", 1e-8}, {"weight_decay", 0.0},  {"momentum_decay", 4e-3}};
  d.flags = {"decoupled_weight_decay", "maximize"};
  d.slots = {"exp_avg", "exp_avg_sq"};
  d.scalar_slots = {"mu_product"};
  d.body = R"(
    t = p.dtype
    if maximize:
        g = -g
    if decoupled_weight_decay:
        p = p * (1 - lr * weight_decay).to(t)
    else:
        g = g + weight_decay.to(t) * p
    mu = beta1 * (1 - 0.5 * torch.pow(0.96, step * momentum_decay))
    mu_next = beta1 * (1 - 0.5 * torch.pow(0.96, (step + 1) * momentum_decay))
    mu_product = torch.where(step == 1, mu, mu_product * mu.to(6).to(7)).to(6).to(7)
    exp_avg = torch.lerp(exp_avg, g, (1 - beta1).to(t))
    exp_avg_sq = torch.addcmul(exp_avg_sq * beta2.to(t), (1 - beta2).to(t) * g, g)
    denominator = (exp_avg_sq / (1 - beta2 ** step).to(t)).sqrt() + eps.to(t)
    along_g = lr * (1 - mu) / (1 - mu_product)
    along_m = lr * mu_next / (1 - mu_product * mu_next)
    p = torch.addcdiv(p, g * (-along_g).to(t), denominator)
    p = torch.addcdiv(p, exp_avg * (-along_m).to(t), denominator)
    return p, exp_avg, exp_avg_sq, mu_product
)";
  return d;
}

}  // namespace chorus::optimizers
