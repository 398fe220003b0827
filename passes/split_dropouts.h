// Dropout that other ops hold inside them, as dropouts of its own: what two passes do for those
// that drop, and a third for those whose probability is 0 (members fused with others that drop
// there).
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <memory>

namespace chorus {

/// scaled_dot_product_attention with a probability above 0; where `idle`, of 0 too.
void splitAttention(const std::shared_ptr<torch::jit::Graph>& graph, bool idle);

/// lstm, gru, rnn_tanh and rnn_relu of more than one layer, in training, likewise.
void splitRecurrent(const std::shared_ptr<torch::jit::Graph>& graph, bool idle);

}  // namespace chorus
