// Nodes that run once per member: a single one without a rule, or a region (regions.h).
#include "lib/batching/batcher.h"
#include "lib/batching/clone_node.h"
#include "lib/batching/list_length.h"
#include "lib/support/choice.h"

namespace chorus {
namespace {

bool isStructure(const Node* node) {
  return node->kind() == c10::prim::Constant || node->kind() == c10::prim::ListConstruct ||
         node->kind() == c10::prim::ListUnpack || node->kind() == c10::prim::TupleConstruct ||
         node->kind() == c10::prim::TupleUnpack;
}

bool isInside(const std::unordered_set<const Node*>& region, const Node* node) {
  for (; node != nullptr; node = node->owningBlock()->owningNode()) {
    if (region.count(node)) return true;
  }
  return false;
}

std::string opOf(const Node* node) { return node->kind().toQualString(); }

}  // namespace

MemberInput Batcher::memberInput(const Node* node, const Value* value) {
  MemberInput input;
  input.value = value;
  input.is_list = isTensorListType(value->type());
  if (!input.is_list) {
    input.operand = operandOf(value);
  } else if (auto elements = elementsOf(value)) {
    input.elements = *elements;
  } else {
    throw Refused(unsupported(opOf(node) + " reads a list of tensors whose length is not known",
                              placeOf(node)));
  }
  return input;
}

/// What members may differ in cannot leave: outside it would be one value for all.
void Batcher::refuseRagged(const Value* value) const {
  if (!dependence_.ragged.count(value)) return;
  const bool tensor = value->type()->kind() == c10::TypeKind::TensorType;
  throw Refused(unsupported(
      tensor ? "the shape of a result depends on each member's own data, so that the members' "
               "results cannot be stacked"
             : opOf(value->node()) + " gives the " + value->type()->str() +
                   " result that depends on a member's own values; members cannot differ in it",
      placeOf(value->node())));
}

void Batcher::perMember(const Region& region) {
  for (const Node* node : region.nodes) {
    if (!isChoice(node)) continue;
    throw Refused(
        unsupported("members differ where the shape of a value depends on each member's own data"));
  }
  const std::unordered_set<const Node*> inside(region.nodes.begin(), region.nodes.end());
  std::vector<MemberInput> inputs;
  std::vector<MemberOutput> outputs;
  std::unordered_set<const Value*> seen;
  for (const Node* node : region.nodes) {
    for (const Value* value : valuesRead(node)) {
      if (inside.count(value->node()) || !seen.insert(value).second) continue;
      inputs.push_back(memberInput(node, value));
    }
  }
  for (const Node* node : region.nodes) {
    for (const Value* value : node->outputs()) {
      const bool wanted = std::ranges::any_of(
          value->uses(), [&](const auto& use) { return !isInside(inside, use.user); });
      if (!wanted) continue;
      refuseRagged(value);
      MemberOutput output{value};
      if (isTensorListType(value->type())) {
        const auto length = listLength(value);
        if (!length) {
          throw Refused(unsupported(
              opOf(node) + " gives a list of tensors whose length is not known", placeOf(node)));
        }
        output.length = *length;
      }
      outputs.push_back(output);
    }
  }
  const auto results = runPerMember(*fused_, region.nodes, inputs, outputs, memberCount());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Value* output = outputs[i].value;
    if (!isTensorListType(output->type())) {
      bind(output, {results[i].front(), output->type()->kind() == c10::TypeKind::TensorType});
      continue;
    }
    lists_[output].clear();
    for (Value* tensor : results[i]) {
      if (const auto rank = elementRank(output)) ranks_[tensor] = *rank;
      lists_[output].push_back({tensor, true});
    }
  }
  for (const Node* node : region.nodes) {
    if (isStructure(node)) continue;
    const RuleRow* row = findRule(opOf(node));
    decide(node, Decision::Kind::PerMember, row == nullptr ? "" : row->family, region.reason);
  }
}

}  // namespace chorus
