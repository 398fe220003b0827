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

}  // namespace chorus
