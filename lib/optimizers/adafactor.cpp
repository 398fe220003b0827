#include <limits>

#include "chorus/optimizer.h"

namespace chorus::optimizers {

// As torch.optim.Adafactor; `eps` is the second of its pair, the first is the dtype's own. The
// means of rows and of columns are kept at every element, so that their product is the estimate; a
// vector's squares are in row_var.
OptimizerDefinition adafactor() {
  OptimizerDefinition d;
  d.name = "adafactor";
  d.summary = "rates from row and column means of squared gradients";
  d.hyperparameters = {
      {"lr", 1e-2}, {"beta2_decay", -0.8}, {"eps", 1e-3}, {"d", 1.0}, {"weight_decay", 0.0}};
  d.hyperparameters[1].minimum = -std::numeric_limits<double>::infinity();
  d.hyperparameters[1].below = std::numeric_limits<double>::denorm_min();
  d.hyperparameters[3].minimum = 1;
  d.flags = {"maximize"};
  d.slots = {"row_var", "col_var"};
  d.per_parameter = true;
  d.body = R"(
    t = p.dtype
    if maximize:
        g = -g
    tiny = 1.1920928955078125e-07
    if t == 7:
        tiny = 2.220446049250313e-16
    share = step ** beta2_decay
    count = p.numel() // p.size(0)
    size = p.unsqueeze(-1).flatten(1).norm(2, [1]).view(lr.size()).to(7) / count ** 0.5
    rate = torch.maximum(size, eps) * torch.minimum(lr, 1 / torch.sqrt(step))
    p = p * (1 - lr * weight_decay).to(t)
    if p.dim() > 2:
        row_var = torch.lerp(row_var, (g * g).mean([-1], True).expand_as(g), share.to(t))
        col_var = torch.lerp(col_var, (g * g).mean([-2], True).expand_as(g), share.to(t))
        estimate = row_var * col_var / torch.clamp(row_var.mean([-2], True), tiny)
    else:
        row_var = torch.lerp(row_var, g * g, share.to(t))
        estimate = row_var
    move = torch.clamp(estimate, tiny * tiny).rsqrt() * g
    length = move.unsqueeze(-1).flatten(1).norm(2, [1]).view(lr.size()).to(7)
    rate = rate / torch.clamp(length / (count ** 0.5 * d), 1.0)
    return p - rate.to(t) * move, row_var, col_var
)";
  return d;
}

}  // namespace chorus::optimizers
