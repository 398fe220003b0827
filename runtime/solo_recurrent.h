#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace chorus {

/// Registers chorus::solo_lstm, solo_gru, solo_rnn_tanh and solo_rnn_relu: the aten ops, with
/// counter-based masks between the layers. Repeatable.
void registerSoloRecurrentOps();

/// The solo op that stands for this node; none where it is no recurrent network of padded
/// sequences.
std::optional<c10::Symbol> soloRecurrent(const torch::jit::Node* node);

}  // namespace chorus
