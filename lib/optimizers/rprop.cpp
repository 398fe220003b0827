#include "chorus/optimizer.h"

namespace chorus::optimizers {

OptimizerDefinition rprop() {
  OptimizerDefinition d;
  d.name = "rprop";
  d.summary = "steps by the sign of the gradient alone";
  d.hyperparameters = {
      {"lr", 1e-2}, {"eta1", 0.5}, {"eta2", 1.2}, {"step_size1", 1e-6}, {"step_size2", 50.0}};
  d.flags = {"maximize"};
  d.slots = {"prev", "step_size"};
  d.problem = [](const OptimizerSpec& spec, size_t k) -> std::string {
    const double shrink = spec.values.at("eta1")[k], grow = spec.values.at("eta2")[k];
    const bool right = 0 < shrink && shrink < 1 && 1 < grow;
    return right ? "" : "etas must be 0 < eta1 < 1 < eta2";
  };
  d.body = R"(
    t = p.dtype
    if maximize:
        g = -g
    step_size = torch.where(step == 1, torch.zeros_like(p) + lr.to(t), step_size)
    sign = (g * prev).sign()
    factor = torch.where(sign > 0, eta2.to(t), torch.where(sign < 0, eta1.to(t), torch.ones_like(p)))
    step_size = torch.clamp(step_size * factor, step_size1.to(t), step_size2.to(t))
    g = torch.where(factor == eta1.to(t), torch.zeros_like(g), g)
    return p - g.sign() * step_size, g, step_size
)";
  return d;
}

}  // namespace chorus::optimizers
