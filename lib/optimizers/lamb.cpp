#include "chorus/optimizer.h"

namespace chorus::optimizers {

// As timm's Lamb with its defaults (bias correction, no global clipping: --clip-norm does that). A
// parameter's step is scaled by its norm over the step's where it decays; else it is Adam's.
OptimizerDefinition lamb() {
  OptimizerDefinition d;
  d.name = "lamb";
  d.summary = "Adam whose step is scaled to each parameter's norm";
  d.hyperparameters = {{"lr", 1e-3},
                       {"beta1", 0.9, 0, 1.0},
                       {"beta2", 0.999, 0, 1.0},
                       {"eps", 1e-6},
                       {"weight_decay", 0.01}};
  d.flags = {"always_adapt", "maximize"};
  d.slots = {"exp_avg", "exp_avg_sq"};
  d.per_parameter = true;
  d.body = R"(
    t = p.dtype
    if maximize:
        g = -g
    exp_avg = exp_avg * beta1.to(t) + g * (1 - beta1).to(t)
    exp_avg_sq = torch.addcmul(exp_avg_sq * beta2.to(t), (1 - beta2).to(t) * g, g)
    denominator = exp_avg_sq.sqrt() / torch.sqrt(1 - beta2 ** step).to(t) + eps.to(t)
    move = exp_avg / (1 - beta1 ** step).to(t) / denominator + weight_decay.to(t) * p
    size = p.unsqueeze(-1).flatten(1).norm(2, [1]).view(lr.size())
    length = move.unsqueeze(-1).flatten(1).norm(2, [1]).view(lr.size())
    ones = torch.ones_like(size)
    trust = torch.where((size > 0) & (length > 0), size / length, ones)
    if not always_adapt:
        trust = torch.where(weight_decay == 0, ones, trust)
    return p - lr.to(t) * trust * move, exp_avg, exp_avg_sq
)";
  return d;
}

}  // namespace chorus::optimizers
