#include "lib/losses/penalty.h"

namespace chorus::losses {

LossDefinition l2_penalty() {
  return penalty(
      "l2_penalty",
      "sum of the squares of all trainable numbers, as a term: \"mse + 1e-4*l2_penalty\"",
      "square");
}

}  // namespace chorus::losses
