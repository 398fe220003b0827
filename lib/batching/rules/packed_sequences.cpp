#include "lib/batching/families.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

// _pack_padded_sequence(input [N,T,C] or [T,N,C], lengths, batch_first) -> data [S,C], batch_sizes
// _pad_packed_sequence(data [S,C], batch_sizes, batch_first, padding, total) -> [N,T,C], lengths
constexpr size_t kSequence = 0, kLengths = 1;

/// Both move rows of dims that they leave alone: K is one of these.
RuleResult rows(RuleContext& context) {
  if (isStacked(context, kLengths)) return context.decline("each member has its own lengths");
  const int64_t before = context.rank(kSequence) > context.outputRank() ? 2 : 1;
  std::vector<Value*> inputs = context.inputs();
  // [K,N,T,C] -> [N,T,K,C] or [K,S,C] -> [S,K,C]
  inputs[kSequence] = context.emit("aten::movedim", {context.stacked(kSequence), 0, before});
  std::vector<Value*> results = context.emitSame(inputs);
  const int64_t behind = before == 2 ? 1 : 2;
  return std::vector<Operand>{{context.emit("aten::movedim", {results[0], behind, 0}), true},
                              {results[1], false}};
}

}  // namespace

RuleRows packed_sequences() {
  return rowsOf("recurrent", rows, {"_pack_padded_sequence", "_pad_packed_sequence"});
}

}  // namespace chorus
