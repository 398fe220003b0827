#include "chorus/optimizer.h"
#include "lib/optimizers/momentum.h"

namespace chorus::optimizers {

// As timm's Lars: the rate of a parameter that decays is scaled by trust_coeff times its norm over
// the gradient's.
OptimizerDefinition lars() {
  OptimizerDefinition d;
  d.name = "lars";
  d.summary = "SGD whose rate is scaled to each parameter's norm";
  d.hyperparameters = {{"lr", 1.0},           {"momentum", 0.0},      {"dampening", 0.0},
                       {"weight_decay", 0.0}, {"trust_coeff", 0.001}, {"eps", 1e-8}};
  d.flags = {"nesterov", "always_adapt", "maximize"};
  d.slots = {"momentum_buffer"};
  d.per_parameter = true;
  d.body = R"(
    t = p.dtype
    if maximize:
        g = -g
    size = p.unsqueeze(-1).flatten(1).norm(2, [1]).view(lr.size())
    slope = g.unsqueeze(-1).flatten(1).norm(2, [1]).view(lr.size())
    decay = weight_decay.to(t)
    ones = torch.ones_like(size)
    trust = trust_coeff.to(t) * size / (slope + size * decay + eps.to(t))
    trust = torch.where((size > 0) & (slope > 0), trust, ones)
    adapts = weight_decay != 0
    if always_adapt:
        adapts = torch.ones_like(adapts)
    g = torch.where(adapts, (g + decay * p) * trust, g)
)" + std::string(kMomentumStep);
  return d;
}

}  // namespace chorus::optimizers
