// What depends on train and eval.
#include "lib/import/specializer.h"

namespace chorus {
namespace {

/// The argument that says whether an op trains; nullopt if it has none.
std::optional<size_t> flagIndex(const c10::FunctionSchema& schema) {
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    if (name == "train" || name == "training" || name == "use_input_stats") return i;
  }
  return std::nullopt;
}

bool isDropout(const std::string& name) {
  return name == "aten::dropout" || name == "aten::feature_dropout" ||
         name == "aten::alpha_dropout" || name == "aten::feature_alpha_dropout";
}

bool endsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

constexpr const char* kCounter = "num_batches_tracked";
constexpr const char* kRunningMean = "running_mean";

}  // namespace

/// Reads the flag by the policy. Sets `outputs` and returns true where the op has a form of its own
/// in one of the modes; else the call goes on, with its flag corrected.
bool Specializer::applyMode(Call& call, std::vector<AbstractPtr>& outputs) {
  const auto index = flagIndex(*call.schema);
  if (!index || !call.arguments.at(*index)->first.isBool()) {
    if (call.name == "aten::scaled_dot_product_attention" && request_.mode.baked &&
        !request_.mode.training && !request_.mode.as_traced) {
      call.arguments.at(4) = plain(0.0);
    }
    return false;
  }
  const bool written = call.arguments[*index]->first.toBool();
  const bool norm = call.name == "aten::batch_norm" || call.name == "aten::instance_norm";
  const bool without_statistics = norm && isNone(call.arguments.at(3));
  const bool flag =
      request_.mode.baked && !without_statistics ? request_.mode.flag(written) : written;
  call.arguments[*index] = plain(flag);
  if (isDropout(call.name) && !flag) {
    outputs = {call.arguments[0]};
    return true;
  }
  if (!norm || without_statistics || !flag) return false;
  outputs = call.name == "aten::batch_norm" ? trainBatchNorm(call, flag != written)
                                            : trainInstanceNorm(call);
  return true;
}

/// Batch norm that updates its statistics, as a function: they are outputs 3 and 4.
std::vector<AbstractPtr> Specializer::trainBatchNorm(const Call& call, bool flipped) {
  const Arguments& a = call.arguments;  // input, weight, bias, running_mean, running_var, training,
                                        // momentum, eps, cudnn
  const AbstractPtr momentum = a.at(6)->number ? plain(1.0) : a.at(6);
  auto outputs = emit(call.node, "aten::_native_batch_norm_legit_functional",
                      {a[0], a[1], a[2], a[3], a[4], plain(true), momentum, a[7]});
  AbstractPtr mean = outputs.at(3), variance = outputs.at(4);
  if (a[6]->number) {  // momentum None: a cumulative average, its factor computed from the counter
    mean = movingAverage(call, a[3], mean, a[6]->number);
    variance = movingAverage(call, a[4], variance, a[6]->number);
  }
  const CellPtr running_mean = a[3]->cell;
  write(running_mean, mean, call.node);
  write(a[4]->cell, variance, call.node);
  if (flipped) countBatch(call, running_mean);
  return {outputs.at(0)};
}

/// old (1 - momentum) + batch momentum, with momentum a 0-d tensor.
AbstractPtr Specializer::movingAverage(const Call& call, const AbstractPtr& old,
                                       const AbstractPtr& batch, const AbstractPtr& momentum) {
  const AbstractPtr dtype = plain(static_cast<int64_t>(old->cell->first.scalar_type()));
  const AbstractPtr factor = cast(call.node, momentum, dtype);
  const AbstractPtr kept =
      emitOne(call.node, "aten::rsub", {factor, plain(int64_t{1}), plain(int64_t{1})});
  return emitOne(call.node, "aten::add",
                 {emitOne(call.node, "aten::mul", {old, kept}),
                  emitOne(call.node, "aten::mul", {batch, factor}), plain(int64_t{1})});
}

/// Tracked instance norm: normalises per sample; the statistics move by the mean over the samples
/// of each sample's mean and unbiased variance.
std::vector<AbstractPtr> Specializer::trainInstanceNorm(const Call& call) {
  const Arguments& a = call.arguments;  // input, weight, bias, running_mean, running_var,
                                        // use_input_stats, momentum, eps
  const auto none = plain({});
  const auto outputs = emit(call.node, "aten::instance_norm",
                            {a[0], a[1], a[2], none, none, plain(true), a[6], a[7], a[8]});
  const int64_t rank = a[0]->cell->first.dim();
  std::vector<AbstractPtr> dims;
  for (int64_t d = 2; d < rank; ++d) dims.push_back(plain(d));
  const auto spatial = container(Abstract::Kind::List, dims, c10::ListType::ofInts());
  const auto samples =
      container(Abstract::Kind::List, {plain(int64_t{0})}, c10::ListType::ofInts());
  const AbstractPtr x = emitOne(call.node, "aten::detach", {a[0]});
  const AbstractPtr mean = emitOne(call.node, "aten::mean", {x, spatial, plain(false), none});
  const AbstractPtr variance =
      emitOne(call.node, "aten::var", {x, spatial, plain(true), plain(false)});
  const double momentum = a[6]->first.toDouble();
  const auto average = [&](const AbstractPtr& old, const AbstractPtr& batch) {
    const AbstractPtr all = emitOne(call.node, "aten::mean", {batch, samples, plain(false), none});
    return emitOne(call.node, "aten::add",
                   {emitOne(call.node, "aten::mul", {old, plain(1.0 - momentum)}),
                    emitOne(call.node, "aten::mul", {all, plain(momentum)}), plain(int64_t{1})});
  };
  write(a[3]->cell, average(a[3], mean), call.node);
  write(a[4]->cell, average(a[4], variance), call.node);
  return {outputs.at(0)};
}

/// A trace made in eval mode has no update of the counter: it is added back.
void Specializer::countBatch(const Call& call, const CellPtr& running_mean) {
  if (!running_mean->slot) return;
  std::string name = slots_[*running_mean->slot].name;
  if (!endsWith(name, kRunningMean)) return;
  name.replace(name.size() - std::string(kRunningMean).size(), std::string::npos, kCounter);
  const auto slot = slot_by_path_.find(name);
  if (slot == slot_by_path_.end()) return;
  const CellPtr& counter = slot_cells_.at(slot->second);
  write(counter,
        emitOne(call.node, "aten::add", {tensorOf(counter), plain(int64_t{1}), plain(int64_t{1})}),
        call.node);
}

/// A trace made in train mode counts batches; its eval graph does not.
bool Specializer::isCounterOfTrace(const Call& call) const {
  const ModeReading& mode = request_.mode;
  if (!mode.baked || mode.training || mode.as_traced) return false;
  const auto& slot = call.arguments.at(0)->cell->slot;
  return slot && endsWith(slots_[*slot].name, kCounter);
}

/// A trace counts by a constant tensor, a script by a number: both by a number.
void Specializer::plainCount(Call& call) const {
  const auto& slot = call.arguments.at(0)->cell->slot;
  if (call.name != "aten::add" || !slot || !endsWith(slots_[*slot].name, kCounter)) return;
  const AbstractPtr& step = call.arguments.at(1);
  if (step->kind != Abstract::Kind::Tensor || !step->cell->known() || step->cell->varies) return;
  call.arguments[1] = plain(step->cell->first.item<int64_t>());
}

}  // namespace chorus
