#include "lib/equivalence/structural_hash.h"

#include "chorus/equivalence.h"
#include "lib/equivalence/text.h"
#include "lib/support/hash.h"

namespace chorus {
namespace equivalence {
namespace {

const uint64_t kInput = hashText("input");
const uint64_t kLiteral = hashText("literal");
const uint64_t kVarying = hashText("varying");
const uint64_t kNode = hashText("node");
const uint64_t kUse = hashText("use");
const uint64_t kOutput = hashText("output");
const uint64_t kUpdate = hashText("update");
const uint64_t kGraph = hashText("graph");
const uint64_t kMember = hashText("member");

constexpr int kRefinementRounds = 3;

template <typename... Words>
uint64_t mixAll(uint64_t hash, Words... words) {
  ((hash = mixHash(hash, words)), ...);
  return hash;
}

uint64_t inputHash(size_t index, const InputSpec& spec) {
  std::string sizes;
  for (const std::optional<int64_t>& size : spec.sizes) {
    sizes += (size ? std::to_string(*size) : "N") + ",";
  }
  return mixAll(kInput, index, static_cast<uint64_t>(spec.dtype), hashText(sizes),
                spec.bound ? static_cast<uint64_t>(*spec.bound) + 1 : 0);
}

std::string treeText(const OutputTree& tree) {
  std::string text;
  switch (tree.kind) {
    case OutputTree::Kind::Tensor:
      text = "t";
      break;
    case OutputTree::Kind::Tuple:
      text = "T";
      break;
    case OutputTree::Kind::List:
      text = "L";
      break;
    case OutputTree::Kind::Dict:
      text = "D";
      break;
    case OutputTree::Kind::None:
      text = "n";
      break;
    case OutputTree::Kind::TensorInTraining:
      text = "a";
      break;
    case OutputTree::Kind::TensorInEval:
      text = "e";
      break;
  }
  for (size_t i = 0; i < tree.children.size(); ++i) {
    if (tree.kind == OutputTree::Kind::Dict) {
      text += cat({"s", std::to_string(tree.keys.at(i).size()), ":", tree.keys[i]});
    }
    text += treeText(tree.children[i]);
  }
  return text + ".";
}

uint32_t position(const IndexedNode& node, size_t operand) {
  return node.unordered && operand < 2 ? 0 : static_cast<uint32_t>(operand);
}

/// Numbers of any kind may meet where the op works on a floating tensor.
uint64_t varyingHash(const IndexedGraph& graph, const IndexedNode& node, size_t operand) {
  const char kind = graph.nodes[node.operands[operand].index].label.front();
  return node.floating ? kVarying : mixHash(kVarying, static_cast<uint64_t>(kind));
}

uint64_t nodeHash(const IndexedMember& member, size_t mode, const IndexedNode& node,
                  const std::vector<uint64_t>& nodes, const std::vector<uint64_t>& slots) {
  if (node.literal) return 0;
  std::vector<uint64_t> operands;
  operands.reserve(node.operands.size());
  for (size_t i = 0; i < node.operands.size(); ++i) {
    operands.push_back(node.varying[i] ? varyingHash(member.graphs[mode], node, i)
                                       : wireHash(member, mode, nodes, slots, node.operands[i]));
  }
  if (node.unordered && operands[0] > operands[1]) std::swap(operands[0], operands[1]);
  uint64_t hash = mixAll(kNode, node.label_hash, node.node->outputs().size());
  for (const uint64_t operand : operands) hash = mixHash(hash, operand);
  return hash;
}

struct UseSums {
  std::vector<uint64_t> inputs;
  std::vector<uint64_t> slots;
  NodeHashes nodes;
};

/// For each value, the sum over its uses of a hash of the use. With `context` a user counts with
/// its own uses, so that differences travel upwards.
UseSums sumUses(const IndexedMember& member, const NodeHashes& hashes,
                const std::vector<uint64_t>& slot_leaves, bool context) {
  UseSums sums;
  sums.inputs.resize(member.member->inputs.size());
  sums.slots.resize(member.slot_leaves.size());
  for (size_t mode = 0; mode < 2; ++mode) {
    const IndexedGraph& graph = member.graphs[mode];
    std::vector<uint64_t>& nodes = sums.nodes[mode];
    nodes.resize(graph.nodes.size());
    const auto add = [&](const Wire& wire, uint64_t use) {
      if (wire.kind == Wire::Kind::Input) sums.inputs[wire.index] += use;
      if (wire.kind == Wire::Kind::Slot) sums.slots[wire.index] += use;
      if (wire.kind == Wire::Kind::Node) nodes[wire.index] += mixHash(use, wire.output);
    };
    for (const auto& [slot, value] : graph.update_of) {
      sums.slots[slot] +=
          mixAll(kUpdate, mode, wireHash(member, mode, hashes[mode], slot_leaves, value));
      if (context) add(value, mixAll(kUpdate, mode, slot_leaves[slot]));
    }
    for (size_t j = 0; context && j < graph.outputs.size(); ++j) {
      add(graph.outputs[j], mixAll(kOutput, mode, j));
    }
    for (size_t n = graph.nodes.size(); n-- > 0;) {
      const IndexedNode& node = graph.nodes[n];
      if (!node.live || node.literal) continue;
      const uint64_t user = context ? mixHash(hashes[mode][n], nodes[n]) : hashes[mode][n];
      for (size_t i = 0; i < node.operands.size(); ++i) {
        add(node.operands[i], mixAll(kUse, mode, user, position(node, i)));
      }
    }
  }
  return sums;
}

}  // namespace

uint64_t wireHash(const IndexedMember& member, size_t mode,
                  const std::vector<uint64_t>& node_hashes,
                  const std::vector<uint64_t>& slot_leaves, const Wire& wire) {
  switch (wire.kind) {
    case Wire::Kind::Input:
      return inputHash(wire.index, member.member->inputs[wire.index]);
    case Wire::Kind::Slot:
      return slot_leaves[wire.index];
    case Wire::Kind::Literal:
      return mixHash(kLiteral, member.graphs[mode].nodes[wire.index].label_hash);
    case Wire::Kind::Node:
      return mixHash(node_hashes[wire.index], wire.output);
  }
  return 0;
}

NodeHashes hashNodes(const IndexedMember& member, const std::vector<uint64_t>& slot_leaves,
                     const std::function<uint64_t(size_t, size_t)>& salt) {
  NodeHashes hashes;
  for (size_t mode = 0; mode < 2; ++mode) {
    const IndexedGraph& graph = member.graphs[mode];
    hashes[mode].reserve(graph.nodes.size());
    for (const IndexedNode& node : graph.nodes) {
      uint64_t hash = nodeHash(member, mode, node, hashes[mode], slot_leaves);
      const uint64_t extra = salt ? salt(mode, hashes[mode].size()) : 0;
      hashes[mode].push_back(extra == 0 ? hash : mixHash(hash, extra));
    }
  }
  return hashes;
}

uint64_t structuralHash(const IndexedMember& member) {
  const NodeHashes hashes = hashNodes(member, member.slot_leaves);
  const UseSums sums = sumUses(member, hashes, member.slot_leaves, false);
  const std::vector<InputSpec>& inputs = member.member->inputs;
  uint64_t hash = mixAll(kMember, inputs.size(), hashText(treeText(member.member->output)));
  for (size_t mode = 0; mode < 2; ++mode) {
    uint64_t graph = mixAll(kGraph, mode);
    for (const Wire& wire : member.graphs[mode].outputs) {
      graph = mixHash(graph, wireHash(member, mode, hashes[mode], member.slot_leaves, wire));
    }
    hash = mixHash(hash, graph);
  }
  uint64_t sum = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    sum += mixHash(inputHash(i, inputs[i]), sums.inputs[i]);
  }
  for (size_t s = 0; s < sums.slots.size(); ++s) {
    sum += mixHash(member.slot_leaves[s], sums.slots[s]);
  }
  return mixHash(hash, sum);
}

Colours refine(const IndexedMember& member, const std::vector<uint64_t>& slot_marks,
               const NodeHashes& node_marks) {
  Colours colours{node_marks, member.slot_leaves};
  for (size_t s = 0; s < slot_marks.size(); ++s) {
    colours.slots[s] = mixHash(colours.slots[s], slot_marks[s]);
  }
  const auto salt = [&](size_t mode, size_t n) { return colours.nodes[mode][n]; };
  for (int round = 0; round < kRefinementRounds; ++round) {
    const NodeHashes hashes = hashNodes(member, colours.slots, salt);
    const UseSums sums = sumUses(member, hashes, colours.slots, true);
    for (size_t mode = 0; mode < 2; ++mode) {
      for (size_t n = 0; n < hashes[mode].size(); ++n) {
        colours.nodes[mode][n] = mixHash(hashes[mode][n], sums.nodes[mode][n]);
      }
    }
    for (size_t s = 0; s < sums.slots.size(); ++s) {
      colours.slots[s] = mixHash(colours.slots[s], sums.slots[s]);
    }
  }
  return colours;
}

}  // namespace equivalence

uint64_t structuralHash(const Member& member) {
  return equivalence::structuralHash(equivalence::indexMember(member));
}

uint64_t functionHash(const Member& member) {
  equivalence::IndexedMember indexed = equivalence::indexMember(member);
  for (equivalence::IndexedGraph& graph : indexed.graphs) {
    for (equivalence::IndexedNode& node : graph.nodes) std::ranges::fill(node.varying, 0);
  }
  return equivalence::structuralHash(indexed);
}

}  // namespace chorus
