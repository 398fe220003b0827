// Places where members compute different things (chorus-fuse --partial): one node that has each
// variant's own code as a block.
//
//     y = chorus::choice():  block 0: -> f(x)   block 1: -> g(x)   ...
//
// Member k's y is what the block of its variant gives. Blocks take nothing and read values from
// outside; they have the same number of results, of the same types. The node lives in memory only:
// in a file it is a tree of prim::If over the number of the variant, an input of the graph.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <unordered_map>

namespace chorus {

constexpr const char* kChoiceOp = "chorus::choice";

bool isChoice(const torch::jit::Node* node);
bool hasChoices(const torch::jit::Graph& graph);

/// Not yet inserted: `variants` empty blocks, no outputs.
torch::jit::Node* createChoice(torch::jit::Graph& graph, size_t variants);

/// A copy with the code of variant `v` in place of each choice. `copies`: what became of nodes.
using NodeCopies = std::unordered_map<const torch::jit::Node*, torch::jit::Node*>;
std::shared_ptr<torch::jit::Graph> takeVariant(const torch::jit::Graph& graph, size_t v,
                                               NodeCopies* copies = nullptr);

/// A copy with one more input, the number of the variant as a 0-d i64 tensor, and branches in place
/// of choices.
std::shared_ptr<torch::jit::Graph> lowerChoices(const torch::jit::Graph& graph);

/// The way back, for graphs that came from a file: branches that the last input decides become
/// choices between `variants`, and the input goes. Throws Refused (error) where something else
/// reads it.
std::shared_ptr<torch::jit::Graph> raiseChoices(const torch::jit::Graph& graph, size_t variants);

}  // namespace chorus
