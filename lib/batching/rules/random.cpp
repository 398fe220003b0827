#include "chorus/batching_rule.h"
#include "lib/batching/fold.h"

namespace chorus {
namespace {

// One draw per element of operand 0.
RuleResult like(RuleContext& context) {
  for (size_t i = 1; i < context.size(); ++i) {
    if (isStacked(context, i)) return context.decline("a parameter of the draw is stacked");
  }
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = context.stacked(0);
  return stackedResults(context.emitSame(inputs));
}

// A draw of a given size: K of them.  [N,C] -> [K,N,C]
RuleResult ofSize(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  const size_t size = context.indexOf("size");
  inputs[size] = context.countInFront(size);
  return stackedResults(context.emitSame(inputs));
}

// multinomial(p [N,C] or [C], n): rows draw apart, so K goes into N or takes its place.
RuleResult multinomial(RuleContext& context) {
  if (context.rank(0) == 1) return like(context);
  return onFoldedBatch(context);
}

// The runtime's draws as a function of member, step and node: chorus::uniform(like, node, stacked),
// chorus::gaussian, chorus::keep_mask(like, p, node, stacked), and chorus::kept with a tensor p of
// each member's own.
RuleResult fromCounter(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  inputs[0] = context.stacked(0);
  if (context.isTensor(1)) inputs[1] = context.stacked(1);
  inputs.back() = context.constantOf(true);
  return stackedResults(context.emitSame(inputs));
}

// normal(mean, std) of which one may be a number, and normal(mean, std, size).
RuleResult normal(RuleContext& context) {
  if (context.has("size")) return ofSize(context);
  int64_t rank = 0;
  for (const size_t i : {0, 1}) rank = std::max(rank, context.isTensor(i) ? context.rank(i) : 0);
  std::vector<Value*> inputs = context.inputs();
  for (const size_t i : {0, 1}) {
    if (context.isTensor(i)) inputs[i] = context.stackedAtRank(i, rank);
  }
  return stackedResults(context.emitSame(inputs));
}

}  // namespace

RuleRows random() {
  return {
      {"aten::bernoulli", like, "random"},
      {"aten::rand_like", like, "random"},
      {"aten::randn_like", like, "random"},
      {"aten::randint_like", like, "random"},
      {"aten::poisson", like, "random"},
      {"aten::exponential", like, "random"},
      {"aten::cauchy", like, "random"},
      {"aten::geometric", like, "random"},
      {"aten::log_normal", like, "random"},
      {"aten::uniform", like, "random"},
      {"aten::normal_functional", like, "random"},
      {"aten::normal", normal, "random"},
      {"aten::rand", ofSize, "random"},
      {"aten::randn", ofSize, "random"},
      {"aten::randint", ofSize, "random"},
      {"aten::multinomial", multinomial, "random"},
      {"chorus::keep_mask", fromCounter, "random"},
      {"chorus::kept", fromCounter, "random"},
      {"chorus::uniform", fromCounter, "random"},
      {"chorus::gaussian", fromCounter, "random"},
  };
}

}  // namespace chorus
