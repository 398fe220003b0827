// Packed sequences (`nn.utils.rnn.pack_padded_sequence`) on example inputs: how many steps there
// are is the contents of a tensor of lengths.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace chorus {

/// It packs, unpacks, or runs a recurrent network on packed steps.
bool worksOnPackedSteps(const torch::jit::Node* node);

/// Results of such a node: meta, but for the counts of rows per step, which a packing op gives with
/// their contents. Lengths that are not known: all steps in the first example; fewer, and not the
/// same in all rows, in the second.
torch::jit::Stack runOnPackedSteps(const torch::jit::Node* node, torch::jit::Stack inputs,
                                   bool second);

}  // namespace chorus
