#include "lib/batching/draws_numbers.h"

#include <torch/csrc/jit/ir/constants.h>

namespace chorus {

bool drawsNumbers(const Node* node, const RuleRow* row) {
  if (!node->isNondeterministic() && (row == nullptr || row->family != "random")) return false;
  for (const char* flag : {"train", "training"}) {
    const auto i = node->schema().argumentIndexWithName(flag);
    if (!i) continue;
    const auto known = torch::jit::toIValue(node->input(static_cast<size_t>(*i)));
    return !known || !known->isBool() || known->toBool();
  }
  return true;
}

}  // namespace chorus
