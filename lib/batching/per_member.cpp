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

Value* selectMember(Graph& fused, Operand operand, Value* k) {
  if (!operand.stacked) return operand.value;
  if (fault("member_zero_for_all")) k = fused.insertConstant(0);
  // Contiguous as the member's own would be: some kernels are wrong about strided weights.
  return fused.insert(c10::aten::contiguous,
                      {fused.insert(c10::aten::select, {operand.value, 0, k})});
}

Value* memberOperand(Graph& fused, const MemberInput& input, const Value* original, Value* k) {
  if (!input.is_list) return selectMember(fused, input.operand, k);
  std::vector<Value*> elements;
  for (const Operand& element : input.elements) {
    elements.push_back(element.value == nullptr ? nullptr : selectMember(fused, element, k));
  }
  const auto element_type = original->type()->expectRef<c10::ListType>().getElementType();
  return fused.insertNode(fused.createList(c10::unshapedType(element_type), elements))->output();
}

void checkNode(const Node* node) {
  const std::string op = node->kind().toQualString();
  if (op.starts_with("aten::as_strided")) {
    throw unsupportedNode(node, "depends on how the tensor lies in memory");
  }
  for (const Value* output : node->outputs()) {
    const bool tensor = output->type()->kind() == c10::TypeKind::TensorType;
    if (tensor || isTensorListType(output->type())) continue;
    throw unsupportedNode(
        node, "gives the " + output->type()->str() +
                  " result that depends on a member's own values; members cannot differ in it");
  }
}

}  // namespace

std::vector<std::vector<Value*>> runPerMember(Graph& fused, const Node* node,
                                              const std::vector<MemberInput>& inputs,
                                              Value* member_count,
                                              const std::vector<size_t>& list_lengths) {
  checkNode(node);
  std::vector<std::vector<Value*>> collected(node->outputs().size());
  for (size_t i = 0; i < collected.size(); ++i) {
    const bool list = isTensorListType(node->output(i)->type());
    for (size_t j = 0; j < (list ? list_lengths[i] : 1); ++j) {
      Node* empty = fused.insertNode(fused.createList(c10::TensorType::get(), {}));
      collected[i].push_back(empty->output());
    }
  }

  Value* always = fused.insertConstant(true);
  Node* loop = fused.insertNode(fused.create(c10::prim::Loop, {member_count, always}, 0));
  Block* body = loop->addBlock();
  Value* k = body->addInput("k")->setType(c10::IntType::get());
  body->registerOutput(always);
  {
    const WithInsertPoint inside(body);
    std::vector<Value*> operands;
    for (size_t i = 0; i < inputs.size(); ++i) {
      operands.push_back(memberOperand(fused, inputs[i], node->inputs()[i], k));
    }
    Node* op = fused.insertNode(cloneNode(fused, node, operands));
    for (size_t i = 0; i < collected.size(); ++i) {
      std::vector<Value*> tensors = {op->output(i)};
      if (isTensorListType(node->output(i)->type())) {
        Node* unpacked =
            fused.insertNode(fused.createListUnpack(op->output(i), collected[i].size()));
        tensors = unpacked->outputs().vec();
      }
      for (size_t j = 0; j < tensors.size(); ++j) {
        fused.insert(c10::aten::append, {collected[i][j], tensors[j]});
      }
    }
  }
  for (auto& lists : collected) {
    for (Value*& list : lists) list = fused.insert(c10::aten::stack, {list, 0});
  }
  return collected;
}

}  // namespace chorus
