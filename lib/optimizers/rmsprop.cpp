#include "chorus/optimizer.h"

namespace chorus::optimizers {

OptimizerDefinition rmsprop() {
  OptimizerDefinition d;
  d.name = "rmsprop";
  d.summary = "rates from a running mean of squared gradients";
  d.hyperparameters = {
      {"lr", 1e-2}, {"alpha", 0.99}, {"eps", 1e-8}, {"weight_decay", 0.0}, {"momentum", 0.0}};
  d.flags = {"centered", "maximize"};
  d.slots = {"square_avg", "momentum_buffer"};
  d.flag_slots = {{"centered", "grad_avg"}};
  d.body = R"(
    t = p.dtype
    if maximize:
        g = -g
    g = g + weight_decay.to(t) * p
    square_avg = torch.addcmul(square_avg * alpha.to(t), (1 - alpha).to(t) * g, g)
    variance = square_avg
    if centered:
        grad_avg = torch.lerp(grad_avg, g, (1 - alpha).to(t))
        variance = torch.addcmul(square_avg, -grad_avg, grad_avg)
    scaled = g / (variance.sqrt() + eps.to(t))
    momentum_buffer = torch.where(momentum > 0, momentum.to(t) * momentum_buffer + scaled, scaled)
    return p - lr.to(t) * momentum_buffer, square_avg, momentum_buffer, grad_avg
)";
  return d;
}

}  // namespace chorus::optimizers
