// Copying a node of a member's graph into the fused graph.
#pragma once

#include <vector>

#include "chorus/member.h"

namespace chorus {

/// The same op, attributes and output types (without shapes) on other inputs; source range and call
/// stack come along. Not yet inserted.
Node* cloneNode(Graph& fused, const Node* node, const std::vector<Value*>& inputs);

/// Type of a member's tensor in the fused graph: dtype and sizes, a stacked one with an unknown K
/// in front, so that passes know ranks and sizes. The member's rank must be known.  [N,C] ->
/// [K,N,C]
c10::TypePtr fusedType(const c10::TensorType& member, bool stacked);

/// Tensor[] or Tensor?[].
bool isTensorListType(const c10::TypePtr& type);

}  // namespace chorus
