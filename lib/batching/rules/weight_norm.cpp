#include "lib/batching/dims.h"
#include "lib/batching/families.h"

namespace chorus {
namespace {

/// _weight_norm(v, g, dim): v times g over v's norm along all dims but `dim`; -1: along all.
/// v [K,O,I], g [K,O,1]; g [K] of rank 0 -> [K,1,1]
RuleResult rule(RuleContext& context) {
  const auto dim = context.constantInt(2);
  if (!dim) return context.decline("computed dim");
  const int64_t rank = context.rank(0);
  std::vector<int64_t> dims = dimRange(1, rank);
  if (*dim != -1) std::erase(dims, shiftDim(*dim, rank));
  Value* v = context.stacked(0);
  Value* norm = context.emit("aten::linalg_vector_norm", {v, 2, dims, true});
  Value* scale = context.emit("aten::div", {context.stackedAtRank(1, rank), norm});
  return stackedResults({context.emit("aten::mul", {v, scale})});
}

}  // namespace

RuleRows weight_norm() { return {{"aten::_weight_norm", rule, "reduction"}}; }

}  // namespace chorus
