#include "chorus/batching_rule.h"
#include "lib/batching/fold.h"
#include "lib/support/fault.h"

namespace chorus {
namespace {

// (input, weight?, bias?, running_mean?, running_var?, training, momentum, eps, ...)
constexpr size_t kInput = 0, kTraining = 5, kMomentum = 6;

// Statistics are per channel, so K members are K times as many channels.
std::vector<Value*> mergedInputs(RuleContext& context) {
  std::vector<Value*> inputs = context.inputs();
  inputs[kInput] = context.merge(context.stacked(kInput));
  for (size_t i = 1; i < kTraining; ++i) inputs[i] = mergedParameter(context, i);
  return inputs;
}

RuleResult batchNorm(RuleContext& context) {
  if (context.rank(kInput) < 2) return context.decline("a tensor without channels");
  const auto training = context.constant(kTraining);
  if (!training) return context.decline("'training' is computed");
  if (training->toBool() && !context.isNone(3)) {
    return context.decline("it moves its running statistics in place");
  }
  return stackedResults({context.unmerge(context.emitSame(mergedInputs(context))[0])});
}

// The statistics of a shared batch are shared, and so is y: only the running ones are each
// member's. With momentum 1 the op's new statistics are those of the batch.
RuleResult sharedBatch(RuleContext& context, double momentum) {
  std::vector<Value*> inputs = context.inputs();
  for (size_t i : {3, 4}) {
    if (isStacked(context, i)) inputs[i] = context.emit("aten::select", {inputs[i], 0, 0});
  }
  inputs[kMomentum] = context.constantOf(1.0);
  const std::vector<Value*> outputs = context.emitSame(inputs);
  std::vector<Operand> results;
  for (size_t i = 0; i < 3; ++i) results.push_back({outputs[i], false});
  for (size_t i : {3, 4}) {
    Value* kept = context.emit("aten::mul", {context.stacked(i), 1.0 - momentum});
    Value* moved = context.emit("aten::mul", {outputs[i], momentum});  // [C]
    results.push_back({context.emit("aten::add", {kept, moved}), true});
  }
  return results;
}

// Five results: y, saved mean and inverse deviation [K,C], new running mean and variance [K,C].
RuleResult functional(RuleContext& context) {
  if (context.rank(kInput) < 2) return context.decline("a tensor without channels");
  const auto training = context.constant(kTraining);
  if (!training || !training->toBool()) return context.decline("not in training");
  const bool shared =
      !context.operand(kInput).stacked && !isStacked(context, 1) && !isStacked(context, 2);
  const auto momentum = context.constant(kMomentum);
  if (shared && momentum && momentum->isDouble()) return sharedBatch(context, momentum->toDouble());
  std::vector<Value*> outputs = context.emitSame(mergedInputs(context));
  if (fault("statistics_swapped")) std::swap(outputs[3], outputs[4]);
  outputs[0] = context.unmerge(outputs[0]);
  for (size_t i = 1; i < outputs.size(); ++i) outputs[i] = unmergedParameter(context, outputs[i]);
  return stackedResults(outputs);
}

RuleResult instanceNorm(RuleContext& context) {
  const auto own_statistics = context.constant(kTraining);
  if (!own_statistics) return context.decline("'use_input_stats' is computed");
  if (own_statistics->toBool() && !context.isNone(3)) {
    return context.decline("it moves its running statistics in place");
  }
  const std::vector<Value*> inputs = mergedInputs(context);
  if (!own_statistics->toBool())
    return stackedResults({context.unmerge(context.emitSame(inputs)[0])});
  // Each channel of each row has its own statistics: groups of one channel, whose kernel is two to
  // five times as fast as this op's.
  Value* x = context.emit("aten::contiguous", {inputs[kInput]});
  Value* channels = context.emit("aten::size", {x, 1});
  return stackedResults({context.unmerge(context.emit(
      "aten::group_norm", {x, channels, inputs[1], inputs[2], context.operand(7).value}))});
}

}  // namespace

RuleRows batch_norm() {
  return {
      {"aten::batch_norm", batchNorm, "grouped"},
      {"aten::_native_batch_norm_legit_functional", functional, "grouped"},
      {"aten::instance_norm", instanceNorm, "grouped"},
  };
}

}  // namespace chorus
