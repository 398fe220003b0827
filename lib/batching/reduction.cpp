#include "lib/batching/reduction.h"

#include <ATen/core/Reduction.h>

#include "lib/batching/dims.h"
#include "lib/support/fault.h"

namespace chorus {

std::optional<int64_t> reductionOf(const RuleContext& context) {
  return context.constantInt(context.indexOf("reduction"));
}

Value* reducedPerMember(RuleContext& context, Value* each, int64_t rank, int64_t reduction) {
  if (reduction == at::Reduction::None || rank == 0) return each;
  const int64_t first = fault("loss_reduces_over_members") ? 0 : 1;
  Value* row = context.emit("aten::flatten", {each, 1, -1});
  return context.emit(reduction == at::Reduction::Mean ? "aten::mean" : "aten::sum",
                      {row, std::vector<int64_t>{first}});
}

}  // namespace chorus
