#include "chorus/optimizer.h"

namespace chorus::optimizers {

// As torch.optim.Muon, for matrices only: K Newton-Schulz iterations as products of stacks of
// matrices, in bf16.
OptimizerDefinition muon() {
  OptimizerDefinition d;
  d.name = "muon";
  d.summary = "momentum made orthogonal; every trainable parameter has to be a matrix";
  d.hyperparameters = {{"lr", 1e-3}, {"weight_decay", 0.1}, {"momentum", 0.95}, {"eps", 1e-7}};
  d.flags = {"nesterov", "match_rms_adamw"};
  d.slots = {"momentum_buffer"};
  d.per_parameter = true;
  d.body = R"(
    t = p.dtype
    assert p.dim() == 3, "muon moves matrices only"
    momentum_buffer = torch.lerp(momentum_buffer, g, (1 - momentum).to(t))
    move = momentum_buffer
    if nesterov:
        move = torch.lerp(g, momentum_buffer, momentum.to(t))
    x = move.to(15)
    rows = p.size(1)
    columns = p.size(2)
    if rows > columns:
        x = x.transpose(1, 2)
    length = x.flatten(1).norm(2, [1]).view(lr.size())
    x = x / torch.maximum(length, eps.to(15))
    for i in range(5):
        gram = torch.bmm(x, x.transpose(1, 2))
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=-4.775, alpha=2.0315), x, beta=3.4445)
    if rows > columns:
        x = x.transpose(1, 2)
    ratio = max(1.0, rows / columns) ** 0.5
    if match_rms_adamw:
        ratio = 0.2 * float(max(rows, columns)) ** 0.5
    p = p * (1 - lr * weight_decay).to(t)
    return p - (lr * ratio).to(t) * x.to(t), momentum_buffer
)";
  return d;
}

}  // namespace chorus::optimizers
