#include <ATen/core/Reduction.h>

#include "lib/batching/dims.h"
#include "lib/batching/families.h"
#include "lib/batching/fold.h"
#include "lib/batching/reduction.h"

namespace chorus {
namespace {

// (input [N,C,...] or [C], target, weight?, reduction, ignore_index, ...)
constexpr size_t kInput = 0, kTarget = 1, kWeight = 2, kReduction = 3, kIgnored = 4, kSmoothing = 5;

int64_t classDim(const RuleContext& context) { return context.rank(kInput) == 1 ? 1 : 2; }

/// What class targets say of each element.
struct Targets {
  Value* kept = nullptr;    ///< 1 where the target is not ignored, else 0; of the input's dtype
  Value* weight = nullptr;  ///< kept times the weight of the target's class
};

/// weight[target]: [K,C] and [K,N,...] -> [K,N,...]
Value* weightOfTargets(RuleContext& context, Value* target) {
  Value* clamped = context.emit("aten::clamp_min", {target, 0});  // -100 is ignored anyway
  const int64_t rank = context.rank(kTarget);
  Value* row = rank == 0 ? context.emit("aten::unsqueeze", {clamped, 1})
                         : context.emit("aten::flatten", {clamped, 1, -1});
  Value* found = context.emit("aten::gather", {context.stacked(kWeight), 1, row});
  return context.emit("aten::view_as", {found, target});
}

Targets targetsOf(RuleContext& context, Value* target, Value* like) {
  Targets targets;
  Value* kept = context.emit("aten::ne", {target, context.operand(kIgnored).value});
  targets.kept = context.emit("aten::type_as", {kept, like});
  targets.weight = targets.kept;
  if (!context.isNone(kWeight))
    targets.weight = context.emit("aten::mul", {targets.kept, weightOfTargets(context, target)});
  return targets;
}

/// -input[target] where the target is not ignored, times its weight.  [K,N,C,...] -> [K,N,...]
Value* eachNll(RuleContext& context, Value* input, Value* target, const Targets& targets) {
  const bool batch = context.rank(kInput) > 1;
  Value* none = context.constantOf(c10::IValue());
  Value* each = context.emit("aten::nll_loss_nd", {batch ? foldIntoBatch(context, input) : input,
                                                   batch ? foldIntoBatch(context, target) : target,
                                                   none, static_cast<int64_t>(at::Reduction::None),
                                                   context.operand(kIgnored).value});
  if (batch) each = unfoldFromBatch(context, each);
  return context.isNone(kWeight) ? each : context.emit("aten::mul", {each, targets.weight});
}

/// Mean: by the weights of the targets that count.
Value* reducedBy(RuleContext& context, Value* each, Value* weight, int64_t rank,
                 int64_t reduction) {
  if (reduction != at::Reduction::Mean) return reducedPerMember(context, each, rank, reduction);
  return context.emit("aten::div", {reducedPerMember(context, each, rank, at::Reduction::Sum),
                                    reducedPerMember(context, weight, rank, at::Reduction::Sum)});
}

RuleResult nll(RuleContext& context) {
  const auto reduction = context.constantInt(kReduction);
  if (!reduction) return context.decline("computed reduction");
  Value* input = context.stacked(kInput);
  Value* target = context.stacked(kTarget);
  const Targets targets = targetsOf(context, target, input);
  Value* each = eachNll(context, input, target, targets);
  return stackedResults(
      {reducedBy(context, each, targets.weight, context.rank(kTarget), *reduction)});
}

/// The weights along the classes.  [K,C] -> [K,1,C,1,...]
Value* classWeights(RuleContext& context, bool batch) {
  Value* weight = context.stacked(kWeight);
  if (batch) weight = context.emit("aten::unsqueeze", {weight, 1});
  for (int64_t d = 2; d < context.rank(kInput); ++d)
    weight = context.emit("aten::unsqueeze", {weight, -1});
  return weight;
}

/// sum over the classes of -log p, weighted.  [K,N,C,...] -> [K,N,...]
Value* overClasses(RuleContext& context, Value* value) {
  if (!context.isNone(kWeight)) {
    value = context.emit("aten::mul", {value, classWeights(context, context.rank(kInput) > 1)});
  }
  Value* sum = context.emit("aten::sum", {value, std::vector<int64_t>{classDim(context)}});
  return context.emit("aten::neg", {sum});
}

/// Targets that are probabilities: -sum(p log q), the mean over rows.
Value* ofProbabilities(RuleContext& context, Value* log_q, double smoothing, int64_t reduction) {
  Value* p = context.stacked(kTarget);
  if (smoothing > 0) {
    Value* classes = context.emit("aten::size", {log_q, classDim(context)});
    Value* floor = context.emit("aten::div", {smoothing, classes});
    p = context.emit("aten::add", {context.emit("aten::mul", {p, 1 - smoothing}), floor});
  }
  Value* each = overClasses(context, context.emit("aten::mul", {log_q, p}));
  const int64_t rank = context.rank(kInput) - 1;
  return reducedPerMember(context, each, rank, reduction);
}

/// Class indices: (1 - s) nll + s / C times the sum over the classes.
Value* ofClasses(RuleContext& context, Value* log_q, double smoothing, int64_t reduction) {
  Value* target = context.stacked(kTarget);
  const int64_t rank = context.rank(kTarget);
  const Targets targets = targetsOf(context, target, log_q);
  Value* exact =
      reducedBy(context, eachNll(context, log_q, target, targets), targets.weight, rank, reduction);
  if (smoothing == 0) return exact;
  Value* ignored = context.emit("aten::eq", {targets.kept, 0});
  Value* each = context.emit("aten::masked_fill", {overClasses(context, log_q), ignored, 0});
  Value* smooth = reducedBy(context, each, targets.weight, rank, reduction);
  Value* classes = context.emit("aten::size", {log_q, classDim(context)});
  Value* share = context.emit("aten::div", {smoothing, classes});
  return context.emit("aten::add", {context.emit("aten::mul", {exact, 1 - smoothing}),
                                    context.emit("aten::mul", {smooth, share})});
}

RuleResult crossEntropy(RuleContext& context) {
  const auto reduction = context.constantInt(kReduction);
  const auto smoothing = context.constant(kSmoothing);
  const auto dtype = context.dtype(kTarget);
  if (!reduction || !smoothing || !dtype) return context.decline("computed arguments");
  Value* log_q = context.emit("aten::log_softmax", {context.stacked(kInput), classDim(context)});
  const double s = smoothing->toDouble();
  return stackedResults({at::isFloatingType(*dtype) ? ofProbabilities(context, log_q, s, *reduction)
                                                    : ofClasses(context, log_q, s, *reduction)});
}

}  // namespace

RuleRows class_losses() {
  return concatenated({
      rowsOf("loss", nll, {"nll_loss_nd", "nll_loss", "nll_loss2d"}),
      rowsOf("loss", crossEntropy, {"cross_entropy_loss"}),
  });
}

}  // namespace chorus
