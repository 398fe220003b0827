// What has no batching rule runs once per member, in a loop over K inside the fused graph.
#pragma once

#include <vector>

#include "chorus/batching_rule.h"

namespace chorus {

/// One input of a node that runs per member: a fused value, or the operands of a tensor list.
struct MemberInput {
  Operand operand;
  std::vector<Operand> elements;
  bool is_list = false;
};

/// Emits at the insertion point of `fused`:
///
///     y_list = []
///     for k in range(K):   y_list.append(op(x.select(0, k), ...))
///     y = stack(y_list)    # [K,...]
///
/// for each output. `list_lengths[i]` is the length of output i where it is a Tensor[], else
/// ignored. Returns for each output its stacked tensors: one, or one per element. Throws Refused
/// (unsupported) for an output that is neither a tensor nor a tensor list.
std::vector<std::vector<Value*>> runPerMember(Graph& fused, const Node* node,
                                              const std::vector<MemberInput>& inputs,
                                              Value* member_count,
                                              const std::vector<size_t>& list_lengths);

}  // namespace chorus
