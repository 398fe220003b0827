// Copying a node of a member's graph into the fused graph.
#pragma once

#include <vector>

#include "chorus/member.h"

namespace chorus {

/// The same op, attributes and output types (without shapes) on other inputs; source range and call
/// stack come along. Not yet inserted.
Node* cloneNode(Graph& fused, const Node* node, const std::vector<Value*>& inputs);

/// Tensor[] or Tensor?[].
bool isTensorListType(const c10::TypePtr& type);

}  // namespace chorus
