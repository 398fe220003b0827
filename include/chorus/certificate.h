// What the prover hands to the checker: data, no code. See docs/architecture.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace chorus {

/// Member k's graph is member 0's under this renaming. Indices: nodes in graph order (constants included),
/// slots in slot order. Entry i of `nodes` is the node of member k that corresponds to node i of member 0.
struct MemberMap {
  std::vector<uint32_t> train_nodes;
  std::vector<uint32_t> eval_nodes;
  std::vector<uint32_t> slots;
  uint64_t tensor_hash = 0;  ///< of member k's constant tensors' bytes, in member 0's slot order
};

/// `members[0]` is the identity.
struct Certificate {
  uint64_t structural_hash = 0;
  std::vector<MemberMap> members;
};

}  // namespace chorus
