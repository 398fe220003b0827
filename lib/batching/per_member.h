// What has no batching rule runs once per member, in a loop over K inside the fused graph.
#pragma once

#include <unordered_map>
#include <vector>

#include "chorus/batching_rule.h"

namespace chorus {

/// Something that the nodes read: a fused value, or the operands of a tensor list.
struct MemberInput {
  const Value* value = nullptr;  ///< of the member's graph
  Operand operand;
  std::vector<Operand> elements;
  bool is_list = false;
};

/// A result that is wanted outside. `length`: of a Tensor[].
struct MemberOutput {
  const Value* value = nullptr;
  size_t length = 0;
};

/// Emits at the insertion point of `fused`:
///
///     y_list = []
///     for k in range(K):   y_list.append(f(x.select(0, k), ...))
///     y = stack(y_list)    # [K,...]
///
/// where f is `nodes`, in order, with their blocks. Returns for each output its stacked tensors:
/// one, or one per element of a list; of a number, which all members must agree on, that of member
/// 0. Throws Refused (unsupported) for an output of another kind.
std::vector<std::vector<Value*>> runPerMember(Graph& fused, const std::vector<const Node*>& nodes,
                                              const std::vector<MemberInput>& inputs,
                                              const std::vector<MemberOutput>& outputs,
                                              Value* member_count);

}  // namespace chorus
