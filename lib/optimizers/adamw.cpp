#include "lib/optimizers/adam.h"

namespace chorus::optimizers {

OptimizerDefinition adamw() {
  OptimizerDefinition d = adamLike("    p = p * (1 - lr * weight_decay).to(t)\n", 1e-2);
  d.name = "adamw";
  d.summary = "adaptive moments with decoupled weight decay";
  return d;
}

}  // namespace chorus::optimizers
