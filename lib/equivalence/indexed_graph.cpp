#include "lib/equivalence/indexed_graph.h"

#include <torch/csrc/jit/ir/constants.h>

#include "chorus/varying_policy.h"
#include "lib/equivalence/text.h"
#include "lib/support/hash.h"

namespace chorus::equivalence {
namespace {

[[noreturn]] void notCanonical(const Member& member, const std::string& what) {
  Message message =
      internalError("the graph of member '" + member.name + "' is not canonical: " + what);
  message.place.file = member.path;
  throw Refused(message);
}

/// Symmetric in operands 0 and 1 to the last bit, forward and backward.
bool isCommutative(const IndexedNode& node, const std::vector<IndexedNode>& nodes) {
  static const std::set<std::string> always = {
      "aten::mul.Tensor",         "aten::eq.Tensor",         "aten::ne.Tensor",
      "aten::logical_and",        "aten::logical_or",        "aten::logical_xor",
      "aten::bitwise_and.Tensor", "aten::bitwise_or.Tensor", "aten::bitwise_xor.Tensor",
      "aten::__and__.Tensor",     "aten::__or__.Tensor",     "aten::__xor__.Tensor"};
  if (always.count(node.label) != 0) return true;
  if (node.label != "aten::add.Tensor" || node.operands.size() != 3) return false;
  const Wire alpha = node.operands[2];
  return alpha.kind == Wire::Kind::Literal && nodes[alpha.index].label == "i1";
}

bool isNumber(const Wire& wire, const std::vector<IndexedNode>& nodes) {
  if (wire.kind != Wire::Kind::Literal) return false;
  const char kind = nodes[wire.index].label.front();
  return kind == 'i' || kind == 'd';
}

std::string_view varyingArguments(const Node* node) {
  const std::string_view op = node->kind().toQualString();
  for (const VaryingPolicy& row : kVaryingPolicy) {
    if (row.op == op) return row.arguments;
  }
  return "";
}

bool hasName(std::string_view names, const std::string& name) {
  return cat({" ", names, " "}).find(cat({" ", name, " "})) != std::string::npos;
}

bool givesTensors(const Node* node) {
  return std::ranges::all_of(node->outputs(), [](const Value* output) {
    return output->type()->castRaw<c10::TensorType>() != nullptr;
  });
}

std::vector<char> varyingOperands(const IndexedNode& entry, const std::vector<IndexedNode>& nodes) {
  std::vector<char> varying(entry.operands.size());
  const auto* schema = entry.node->maybeSchema();
  const std::string_view names = varyingArguments(entry.node);
  if (names.empty() || schema == nullptr || !givesTensors(entry.node)) return varying;
  for (size_t i = 0; i < varying.size(); ++i) {
    varying[i] =
        isNumber(entry.operands[i], nodes) && hasName(names, schema->arguments()[i].name());
  }
  return varying;
}

bool isFloatingTensor(const Value* value) {
  const auto* type = value->type()->castRaw<c10::TensorType>();
  return type && type->scalarType() && c10::isFloatingType(*type->scalarType());
}

std::string opLabel(const Member& member, const Node* node) {
  std::string label = node->kind().toQualString();
  if (node->hasAttributes()) notCanonical(member, label + " has attributes");
  const torch::jit::FunctionSchema* schema = node->maybeSchema();
  if (schema && !schema->overload_name().empty()) label += "." + schema->overload_name();
  return label;
}

std::string constantKey(const Member& member, const Node* node) {
  const std::optional<c10::IValue> value = torch::jit::toIValue(node->output());
  const std::optional<std::string> key = value ? literalKey(*value) : std::nullopt;
  if (!key) {
    notCanonical(member, "a constant of type " + node->output()->type()->str());
  }
  return *key;
}

/// A list of constants is itself a literal, so that [1, 1] and a ListConstruct of 1 and 1 are
/// equal.
bool becomesLiteralList(IndexedNode& entry, const std::vector<IndexedNode>& nodes) {
  if (entry.node->kind() != torch::jit::prim::ListConstruct) return false;
  std::string key = "[";
  for (const Wire& element : entry.operands) {
    const bool constant = element.kind == Wire::Kind::Literal &&
                          nodes[element.index].node->kind() == torch::jit::prim::Constant;
    if (!constant || nodes[element.index].label.find_first_of("[(") == 0) return false;
    key += (key.size() > 1 ? "," : "") + nodes[element.index].label;
  }
  entry.label = key + "]";
  entry.literal = true;
  entry.operands.clear();
  return true;
}

void markLive(IndexedGraph& graph) {
  std::vector<uint32_t> work;
  const auto reach = [&](const Wire& wire) {
    if (wire.kind != Wire::Kind::Node && wire.kind != Wire::Kind::Literal) return;
    if (std::exchange(graph.nodes[wire.index].live, true)) return;
    work.push_back(wire.index);
  };
  for (const Wire& wire : graph.outputs) reach(wire);
  for (const auto& [slot, wire] : graph.update_of) reach(wire);
  while (!work.empty()) {
    const uint32_t index = work.back();
    work.pop_back();
    for (const Wire& wire : graph.nodes[index].operands) reach(wire);
  }
}

IndexedNode indexNode(const Member& member, const Node* node,
                      const std::unordered_map<const Value*, Wire>& wires,
                      const std::vector<IndexedNode>& before) {
  IndexedNode entry;
  entry.node = node;
  if (node->kind() == torch::jit::prim::Constant) {
    entry.label = constantKey(member, node);
    entry.literal = true;
    return entry;
  }
  for (const Value* input : node->inputs()) entry.operands.push_back(wires.at(input));
  if (becomesLiteralList(entry, before)) return entry;
  entry.label = opLabel(member, node);
  entry.commutative = isCommutative(entry, before);
  entry.unordered = entry.commutative ||
                    (entry.label == "aten::add.Tensor" && isNumber(entry.operands[2], before));
  entry.floating = !node->inputs().empty() && isFloatingTensor(node->inputs()[0]);
  entry.varying = varyingOperands(entry, before);
  return entry;
}

using Wires = std::unordered_map<const Value*, Wire>;

void addNode(const Node* node, IndexedNode entry, Wires& wires, IndexedGraph& into) {
  entry.label_hash = hashText(entry.label);
  entry.varying.resize(entry.operands.size());
  const auto kind = entry.literal ? Wire::Kind::Literal : Wire::Kind::Node;
  for (size_t j = 0; j < node->outputs().size(); ++j) {
    wires[node->outputs()[j]] = {kind, static_cast<uint32_t>(into.nodes.size()),
                                 static_cast<uint32_t>(j)};
  }
  into.nodes.push_back(std::move(entry));
}

/// A branch or loop comes behind the nodes of its blocks, and reads what they give: so it is equal
/// to another only where they are. What a block takes is an entry of its own, which reads what the
/// node reads.
void indexBlock(const Member& member, const torch::jit::Block& block, Wires& wires,
                IndexedGraph& into) {
  for (const Node* node : block.nodes()) {
    std::vector<const Value*> inner;
    for (const torch::jit::Block* part : node->blocks()) {
      if (!part->inputs().empty()) {
        IndexedNode state;
        state.node = part->param_node();
        state.label = "prim::Param";
        for (const Value* input : node->inputs()) state.operands.push_back(wires.at(input));
        addNode(state.node, state, wires, into);
        inner.insert(inner.end(), part->inputs().begin(), part->inputs().end());
      }
      indexBlock(member, *part, wires, into);
      inner.insert(inner.end(), part->outputs().begin(), part->outputs().end());
    }
    IndexedNode entry = indexNode(member, node, wires, into.nodes);
    for (const Value* value : inner) entry.operands.push_back(wires.at(value));
    addNode(node, std::move(entry), wires, into);
  }
}

IndexedGraph indexGraph(const Member& member, const CanonicalGraph& canonical) {
  const Graph& graph = *canonical.graph;
  if (canonical.n_inputs != member.inputs.size() ||
      graph.inputs().size() != canonical.n_inputs + member.slots.size()) {
    notCanonical(member, "it has " + std::to_string(graph.inputs().size()) + " inputs");
  }
  if (graph.outputs().size() != canonical.n_outputs + canonical.updates.size()) {
    notCanonical(member, "it has " + std::to_string(graph.outputs().size()) + " outputs");
  }
  Wires wires;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const bool is_slot = i >= canonical.n_inputs;
    wires[graph.inputs()[i]] = {is_slot ? Wire::Kind::Slot : Wire::Kind::Input,
                                static_cast<uint32_t>(is_slot ? i - canonical.n_inputs : i), 0};
  }
  IndexedGraph result;
  indexBlock(member, *graph.block(), wires, result);
  for (size_t j = 0; j < canonical.n_outputs; ++j) {
    result.outputs.push_back(wires.at(graph.outputs()[j]));
  }
  for (size_t j = 0; j < canonical.updates.size(); ++j) {
    const Wire value = wires.at(graph.outputs()[canonical.n_outputs + j]);
    const size_t slot = canonical.updates[j];
    if (slot >= member.slots.size() || !result.update_of.emplace(slot, value).second) {
      notCanonical(member, "update " + std::to_string(j) + " names slot " + std::to_string(slot));
    }
  }
  markLive(result);
  return result;
}

std::string sizesText(at::IntArrayRef sizes) {
  std::string text;
  for (const int64_t size : sizes) text += std::to_string(size) + ",";
  return text;
}

uint64_t slotLeaf(const TensorSlot& slot) {
  uint64_t hash = hashText("slot");
  hash = mixHash(hash, static_cast<uint64_t>(slot.role));
  hash = mixHash(hash, static_cast<uint64_t>(slot.value.scalar_type()));
  hash = mixHash(hash, hashText(sizesText(slot.value.sizes())));
  hash = mixHash(hash, slot.requires_grad);
  hash = mixHash(hash, 1 + slot.aliases.size());
  return hash;
}

void markUsedSlots(IndexedMember& indexed) {
  const auto use = [&](const Wire& wire) {
    if (wire.kind == Wire::Kind::Slot) indexed.slot_used[wire.index] = 1;
  };
  for (const IndexedGraph& graph : indexed.graphs) {
    for (const IndexedNode& node : graph.nodes) {
      if (node.live) std::for_each(node.operands.begin(), node.operands.end(), use);
    }
    std::for_each(graph.outputs.begin(), graph.outputs.end(), use);
    for (const auto& [slot, value] : graph.update_of) {
      indexed.slot_used[slot] = 1;
      use(value);
    }
  }
}

}  // namespace

bool mayVary(const IndexedNode& a, const IndexedNode& b, size_t operand, const std::string& label_a,
             const std::string& label_b) {
  if (!a.varying[operand] || !b.varying[operand]) return false;
  return label_a.front() == label_b.front() || (a.floating && b.floating);
}

IndexedMember indexMember(const Member& member) {
  IndexedMember indexed;
  indexed.member = &member;
  for (const TensorSlot& slot : member.slots) {
    if (!slot.value.defined()) notCanonical(member, "'" + slot.name + "' has no value");
    indexed.slot_leaves.push_back(slotLeaf(slot));
  }
  indexed.graphs[0] = indexGraph(member, member.train);
  indexed.graphs[1] = indexGraph(member, member.eval);
  indexed.slot_used.resize(member.slots.size());
  markUsedSlots(indexed);
  return indexed;
}

}  // namespace chorus::equivalence
