#include "lib/batching/clone_node.h"

namespace chorus {

Node* cloneNode(Graph& fused, const Node* node, const std::vector<Value*>& inputs) {
  Node* copy = fused.create(node->kind(), inputs, node->outputs().size());
  copy->copyAttributes(*node);
  copy->copyMetadata(const_cast<Node*>(node));  // only reads it
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    copy->output(i)->setType(c10::unshapedType(node->output(i)->type()));
  }
  return copy;
}

bool isTensorListType(const c10::TypePtr& type) {
  const auto* list = type->castRaw<c10::ListType>();
  return list != nullptr && list->getElementType()->isSubtypeOf(c10::OptionalType::ofTensor());
}

c10::TypePtr fusedType(const c10::TensorType& member, bool stacked) {
  std::vector<std::optional<int64_t>> sizes(*member.dim());
  if (const auto known = member.sizes().sizes()) sizes = *known;
  if (stacked) sizes.insert(sizes.begin(), std::nullopt);
  return c10::TensorType::create(member.scalarType(), std::nullopt, c10::SymbolicShape(sizes), {},
                                 std::nullopt);
}

}  // namespace chorus
