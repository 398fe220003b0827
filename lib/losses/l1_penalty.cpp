#include "lib/losses/penalty.h"

namespace chorus::losses {

LossDefinition l1_penalty() {
  return penalty("l1_penalty",
                 "sum of the sizes of all trainable numbers, as a term: \"mse + 1e-4*l1_penalty\"",
                 "abs");
}

}  // namespace chorus::losses
