// The hashes of certificate.h, written a second time on purpose: the prover's own are not to be
// trusted here.
#include <bit>
#include <cstring>

#include "lib/equivalence/checker/tables.h"

namespace chorus::checker {
namespace {

uint64_t mixed(std::initializer_list<uint64_t> words) {
  uint64_t hash = *words.begin();
  for (auto word = words.begin() + 1; word != words.end(); ++word) hash = mix(hash, *word);
  return hash;
}

uint64_t hashBytes(const char* bytes, size_t size) {
  uint64_t hash = 0;
  for (size_t at = 0; at < size; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min<size_t>(8, size - at));
    hash = mix(hash, word);
  }
  return mix(hash, size);
}

uint64_t leafOf(const InputSpec& spec, size_t i) {
  std::string sizes;
  for (const auto& size : spec.sizes) sizes += size ? c10::str(*size, ",") : "N,";
  return mixed({hashOf("input"), i, static_cast<uint64_t>(spec.dtype), hashOf(sizes),
                spec.bound ? static_cast<uint64_t>(*spec.bound) + 1 : 0});
}

uint64_t leafOf(const TensorSlot& slot) {
  std::string sizes;
  for (const int64_t size : slot.value.sizes()) sizes += c10::str(size, ",");
  const uint64_t hash = mixed({hashOf("slot"), static_cast<uint64_t>(slot.role),
                               static_cast<uint64_t>(slot.value.scalar_type()), hashOf(sizes),
                               slot.requires_grad, 1 + slot.aliases.size()});
  return slot.role == Role::Constant ? mix(hash, hashOf(slot.value)) : hash;
}

std::string treeText(const OutputTree& tree) {
  std::string text(1, "tTLD"[static_cast<size_t>(tree.kind)]);
  for (size_t i = 0; i < tree.children.size(); ++i) {
    if (i < tree.keys.size()) text += c10::str("s", tree.keys[i].size(), ":", tree.keys[i]);
    text += treeText(tree.children[i]);
  }
  return text + ".";
}

/// Hash of one graph; adds to the use sums of its inputs.
uint64_t graphHash(const Table& table, uint64_t mode, const std::vector<uint64_t>& leaves,
                   std::vector<uint64_t>& sums) {
  std::vector<uint64_t> nodes;
  const auto hashOfValue = [&](const Value* value) {
    if (table.isInput(value)) return leaves[value->offset()];
    const uint32_t n = table.index_of.at(value->node());
    return table.nodes[n].literal ? nodes[n] : mix(nodes[n], value->offset());
  };
  for (const NodeFacts& facts : table.nodes) {
    std::vector<uint64_t> operands;
    for (const Value* input : facts.node->inputs()) operands.push_back(hashOfValue(input));
    if (facts.commutative && operands[1] < operands[0]) std::swap(operands[0], operands[1]);
    uint64_t hash = mixed({hashOf("node"), hashOf(facts.text), facts.node->outputs().size()});
    for (const uint64_t operand : operands) hash = mix(hash, operand);
    nodes.push_back(facts.literal ? mix(hashOf("literal"), hashOf(facts.text)) : hash);
    if (!facts.live || facts.literal) continue;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Value* input = facts.node->inputs()[i];
      const size_t position = facts.commutative && i < 2 ? 0 : i;
      if (table.isInput(input))
        sums[input->offset()] += mixed({hashOf("use"), mode, hash, position});
    }
  }
  uint64_t result = mixed({hashOf("graph"), mode});
  for (size_t j = 0; j < table.canonical->n_outputs; ++j) {
    result = mix(result, hashOfValue(table.canonical->graph->outputs()[j]));
  }
  for (const auto& [slot, value] : table.update_of) {
    sums[table.canonical->n_inputs + slot] += mixed({hashOf("update"), mode, hashOfValue(value)});
  }
  return result;
}

}  // namespace

uint64_t mix(uint64_t hash, uint64_t word) {
  uint64_t x = (std::rotl(hash, 23) + 0x9e3779b97f4a7c15) ^ word;
  x *= 0xff51afd7ed558ccd;
  x ^= x >> 32;
  x *= 0xc4ceb9fe1a85ec53;
  return x ^ (x >> 29);
}

uint64_t hashOf(const std::string& text) { return hashBytes(text.data(), text.size()); }

uint64_t hashOf(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous();
  uint64_t hash = mix(0, static_cast<uint64_t>(plain.scalar_type()));
  for (const int64_t size : plain.sizes()) hash = mix(hash, static_cast<uint64_t>(size));
  return mix(hash, hashBytes(static_cast<const char*>(plain.const_data_ptr()), plain.nbytes()));
}

uint64_t structureOf(const Member& member, const Table& train, const Table& eval) {
  std::vector<uint64_t> leaves;
  for (const InputSpec& spec : member.inputs) leaves.push_back(leafOf(spec, leaves.size()));
  for (const TensorSlot& slot : member.slots) leaves.push_back(leafOf(slot));
  std::vector<uint64_t> sums(leaves.size());
  uint64_t hash = mixed({hashOf("member"), member.inputs.size(), hashOf(treeText(member.output))});
  hash = mix(hash, graphHash(train, 0, leaves, sums));
  hash = mix(hash, graphHash(eval, 1, leaves, sums));
  uint64_t sum = 0;
  for (size_t i = 0; i < sums.size(); ++i) sum += mix(leaves[i], sums[i]);
  return mix(hash, sum);
}

}  // namespace chorus::checker
