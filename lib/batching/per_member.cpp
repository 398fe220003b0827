#include "lib/batching/per_member.h"

#include <torch/csrc/jit/ir/constants.h>

#include "lib/batching/clone_node.h"
#include "lib/support/fault.h"

namespace chorus {
namespace {

using torch::jit::Block;
using torch::jit::WithInsertPoint;

Refused unsupportedNode(const Node* node, const std::string& why) {
  return Refused(unsupported(std::string(node->kind().toQualString()) + " " + why, placeOf(node)));
}

/// The members' values, each of its own: what a loop takes from, one at a time.
struct Members {
  Graph& fused;
  Node* loop;
  Value* k;
  std::unordered_map<const Value*, Value*> unbound;

  /// Unbound once, before the loop: the gradient of K selects would write K tensors of K members
  /// each.
  Value* select(Operand operand) {
    if (!operand.stacked) return operand.value;
    Value*& parts = unbound[operand.value];
    if (!parts) {
      const WithInsertPoint before(loop);
      parts = fused.insert(c10::aten::unbind, {operand.value, 0});
    }
    Value* which = fault("member_zero_for_all") ? fused.insertConstant(0) : k;
    // Contiguous as the member's own would be: some kernels are wrong about strided weights.
    return fused.insert(c10::aten::contiguous,
                        {fused.insert(c10::aten::__getitem__, {parts, which})});
  }

  Value* select(const MemberInput& input) {
    if (!input.is_list) return select(input.operand);
    std::vector<Value*> elements;
    for (const Operand& element : input.elements)
      elements.push_back(element.value == nullptr ? nullptr : select(element));
    const auto element_type = input.value->type()->expectRef<c10::ListType>().getElementType();
    return fused.insertNode(fused.createList(c10::unshapedType(element_type), elements))->output();
  }
};

bool isNumberType(const c10::TypePtr& type) {
  const auto kind = type->kind();
  return kind == c10::TypeKind::IntType || kind == c10::TypeKind::FloatType ||
         kind == c10::TypeKind::BoolType;
}

void checkOutput(const Value* output) {
  const c10::TypePtr& type = output->type();
  if (type->kind() == c10::TypeKind::TensorType || isTensorListType(type) || isNumberType(type)) {
    return;
  }
  throw unsupportedNode(output->node(), "gives the " + type->str() +
                                            " result that depends on a member's own values; "
                                            "members cannot differ in it");
}

/// Lists that collect the members' results: one per output, or one per element of a list.
std::vector<std::vector<Value*>> emptyLists(Graph& fused,
                                            const std::vector<MemberOutput>& outputs) {
  std::vector<std::vector<Value*>> collected;
  for (const MemberOutput& output : outputs) {
    checkOutput(output.value);
    const c10::TypePtr& type = output.value->type();
    const size_t count = isTensorListType(type) ? output.length : 1;
    const c10::TypePtr element = isNumberType(type) ? type : c10::TensorType::get();
    collected.emplace_back();
    for (size_t j = 0; j < count; ++j) {
      collected.back().push_back(fused.insertNode(fused.createList(element, {}))->output());
    }
  }
  return collected;
}

void forgetShapes(Node* node) {
  for (Value* output : node->outputs()) output->setType(c10::unshapedType(output->type()));
  for (Block* block : node->blocks()) {
    for (Value* input : block->inputs()) input->setType(c10::unshapedType(input->type()));
    for (Node* inner : block->nodes()) forgetShapes(inner);
  }
}

/// The nodes as they are, on one member's values, which `values` holds and takes.
void copyNodes(Graph& fused, const std::vector<const Node*>& nodes,
               std::unordered_map<const Value*, Value*>& values) {
  for (const Node* node : nodes) {
    if (std::string(node->kind().toQualString()).starts_with("aten::as_strided"))
      throw unsupportedNode(node, "depends on how the tensor lies in memory");
    Node* copy = fused.insertNode(
        fused.createClone(const_cast<Node*>(node), [&](Value* value) { return values.at(value); }));
    copy->copyMetadata(const_cast<Node*>(node));  // only reads it
    forgetShapes(copy);
    for (size_t i = 0; i < node->outputs().size(); ++i) values[node->output(i)] = copy->output(i);
  }
}

}  // namespace

std::vector<std::vector<Value*>> runPerMember(Graph& fused, const std::vector<const Node*>& nodes,
                                              const std::vector<MemberInput>& inputs,
                                              const std::vector<MemberOutput>& outputs,
                                              Value* member_count) {
  std::vector<std::vector<Value*>> collected = emptyLists(fused, outputs);
  Value* always = fused.insertConstant(true);
  Node* loop = fused.insertNode(fused.create(c10::prim::Loop, {member_count, always}, 0));
  Block* body = loop->addBlock();
  Value* k = body->addInput("k")->setType(c10::IntType::get());
  body->registerOutput(always);
  {
    const WithInsertPoint inside(body);
    std::unordered_map<const Value*, Value*> values;
    Members members{fused, loop, k, {}};
    for (const MemberInput& input : inputs) values[input.value] = members.select(input);
    copyNodes(fused, nodes, values);
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::vector<Value*> results = {values.at(outputs[i].value)};
      if (isTensorListType(outputs[i].value->type())) {
        Node* unpacked = fused.insertNode(fused.createListUnpack(results[0], collected[i].size()));
        results = unpacked->outputs().vec();
      }
      for (size_t j = 0; j < results.size(); ++j) {
        fused.insert(c10::aten::append, {collected[i][j], results[j]});
      }
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool number = isNumberType(outputs[i].value->type());
    for (Value*& list : collected[i]) {
      list = number ? fused.insert(c10::aten::__getitem__, {list, 0})
                    : fused.insert(c10::aten::stack, {list, 0});
    }
  }
  return collected;
}

}  // namespace chorus
