#include "lib/partial/sequence.h"

#include "lib/batching/regions.h"
#include "lib/equivalence/indexed_graph.h"
#include "lib/support/hash.h"

namespace chorus::partial {
namespace {

using equivalence::IndexedNode;

std::string typeText(const Value* value) {
  const auto* type = value->type()->castRaw<c10::TensorType>();
  if (type == nullptr) return value->type()->str();
  std::string text = type->scalarType() ? dtypeName(*type->scalarType()) : "?";
  if (!type->dim()) return text + "[?]";
  text += "[";
  for (size_t d = 0; d < *type->dim(); ++d) {
    const auto size = type->sizes()[d];
    text += (d ? "," : "") + (size ? std::to_string(*size) : std::string("N"));
  }
  return text + "]";
}

/// Depth first from the results, operands as they are written: the ops that an output needs.
std::vector<const Node*> orderOf(const CanonicalGraph& canonical) {
  struct Visit {
    const Node* node;
    std::vector<const Value*> reads;
    size_t next = 0;
  };
  const torch::jit::Block* top = canonical.graph->block();
  std::vector<const Node*> order;
  std::unordered_set<const Node*> entered = {canonical.graph->param_node()};
  for (const Value* output : canonical.graph->outputs()) {
    std::vector<Visit> stack;
    const auto enter = [&](const Node* node) {
      if (node->owningBlock() == top && entered.insert(node).second)
        stack.push_back({node, valuesRead(node)});
    };
    enter(output->node());
    while (!stack.empty()) {
      Visit& visit = stack.back();
      if (visit.next < visit.reads.size()) {
        enter(visit.reads[visit.next++]->node());
        continue;
      }
      order.push_back(visit.node);
      stack.pop_back();
    }
  }
  return order;
}

std::string operandText(const Sequence& sequence, const IndexedNode& indexed, size_t i,
                        const std::vector<SlotTraits>& traits) {
  const Value* value = indexed.node->input(i);
  const auto literal = sequence.literals.find(value);
  if (literal != sequence.literals.end()) {
    if (!indexed.varying[i]) return literal->second;
    return indexed.floating ? "#" : "#" + literal->second.substr(0, 1);
  }
  const auto slot = sequence.slotOf(value);
  return slot ? "slot " + traits[*slot].text : "v";
}

uint64_t signatureOf(const Sequence& sequence, const IndexedNode& indexed,
                     const std::vector<SlotTraits>& traits) {
  if (!indexed.node->blocks().empty()) return 0;
  std::string text = indexed.label;
  for (size_t i = 0; i < indexed.node->inputs().size(); ++i)
    text += ";" + operandText(sequence, indexed, i, traits);
  for (const Value* output : indexed.node->outputs()) text += ">" + typeText(output);
  return hashText(text) | 1;
}

Sequence sequenceOf(const Member& member, const CanonicalGraph& canonical,
                    const equivalence::IndexedGraph& indexed,
                    const std::vector<SlotTraits>& traits) {
  Sequence sequence;
  sequence.member = &member;
  sequence.canonical = &canonical;
  std::unordered_map<const Node*, const IndexedNode*> facts;
  for (const IndexedNode& entry : indexed.nodes) {
    if (entry.literal) sequence.literals[entry.node->output()] = entry.label;
    facts[entry.node] = &entry;
  }
  for (const Node* node : orderOf(canonical)) {
    const IndexedNode& entry = *facts.at(node);
    if (entry.literal) continue;
    Item item{node, valuesRead(node), signatureOf(sequence, entry, traits)};
    item.loose = std::ranges::none_of(node->outputs(), [](const Value* output) {
      return output->type()->castRaw<c10::TensorType>() != nullptr;
    });
    sequence.index[node] = sequence.items.size();
    sequence.items.push_back(std::move(item));
  }
  return sequence;
}

}  // namespace

const Value* Sequence::updateOf(size_t slot) const {
  for (size_t j = 0; j < canonical->updates.size(); ++j) {
    if (canonical->updates[j] == slot) return canonical->graph->outputs()[canonical->n_outputs + j];
  }
  return nullptr;
}

std::vector<SlotTraits> slotTraits(const Member& member) {
  const auto reached = readByOutputs(member.train);
  std::vector<SlotTraits> all;
  for (size_t s = 0; s < member.slots.size(); ++s) {
    const TensorSlot& slot = member.slots[s];
    SlotTraits traits;
    traits.trains = slot.role == Role::Parameter && slot.requires_grad &&
                    reached.count(member.train.slotInput(s)) > 0;
    traits.updated = {std::ranges::count(member.train.updates, s) > 0,
                      std::ranges::count(member.eval.updates, s) > 0};
    traits.text = c10::str(static_cast<int>(slot.role), " ", dtypeName(slot.value.scalar_type()),
                           slot.value.sizes(), slot.requires_grad, traits.trains, traits.updated[0],
                           traits.updated[1]);
    all.push_back(std::move(traits));
  }
  return all;
}

std::array<Sequence, 2> sequencesOf(const Member& member, const std::vector<SlotTraits>& traits) {
  const equivalence::IndexedMember indexed = equivalence::indexMember(member);
  return {sequenceOf(member, member.train, indexed.graphs[0], traits),
          sequenceOf(member, member.eval, indexed.graphs[1], traits)};
}

bool sameShape(const Value* a, const Value* b) {
  return a->type()->castRaw<c10::TensorType>() && typeText(a) == typeText(b);
}

}  // namespace chorus::partial
