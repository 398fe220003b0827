// What the texts of padded and of packed sequences share.
#pragma once

#include <string>

#include "lib/batching/recurrent_text.h"

namespace chorus {

/// `h` and `c` after a step, from `s` [K,G,N]: the input's share of the gates, with its bias.
std::string recurrentStepText(Cell cell, bool biases, bool projections, const std::string& indent);

/// with_ones, with_bias, project, first_state, last_state.
std::string recurrentHelpersText();

}  // namespace chorus
