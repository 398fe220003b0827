#include "chorus/batching_rule.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

// (input, p, train)
enum class Effect { Nothing, Draws, Unknown };

Effect effectOf(const RuleContext& context) {
  const auto train = context.constant(2);
  if (!train || !context.constant(1)) return Effect::Unknown;
  return train->toBool() && !isNumber(context, 1, 0) ? Effect::Draws : Effect::Nothing;
}

// One draw per element: more elements, more draws. A shared operand is expanded, so that members
// draw apart.
RuleResult perElement(RuleContext& context) {
  const Effect effect = effectOf(context);
  if (effect == Effect::Unknown) return context.decline("'p' or 'train' is computed");
  if (effect == Effect::Nothing) return std::vector<Operand>{context.operand(0)};
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = context.stacked(0);
  return stackedResults(context.emitSame(inputs));
}

// One draw per (row, channel): (K C) channels of merged rows.
RuleResult perChannel(RuleContext& context) {
  const Effect effect = effectOf(context);
  if (effect == Effect::Unknown) return context.decline("'p' or 'train' is computed");
  if (effect == Effect::Nothing) return std::vector<Operand>{context.operand(0)};
  if (context.rank(0) < 2) return context.decline("no channel dim");
  return onMergedChannels(context);
}

// native_dropout(input, p, train?) -> (y, mask)
RuleResult withMask(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = context.stacked(0);
  return stackedResults(context.emitSame(inputs));
}

}  // namespace

RuleRows dropout() {
  return {
      {"aten::dropout", perElement, "random"},
      {"aten::alpha_dropout", perElement, "random"},
      {"aten::feature_dropout", perChannel, "random"},
      {"aten::feature_alpha_dropout", perChannel, "random"},
      {"aten::native_dropout", withMask, "random"},
  };
}

}  // namespace chorus
