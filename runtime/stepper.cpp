#include "runtime/stepper.h"

#include <ATen/autocast_mode.h>

#include <cmath>

#include "lib/export/state.h"
#include "lib/support/fault.h"
#include "runtime/gradients.h"
#include "runtime/optimizer_step.h"

namespace chorus {
namespace {

/// Autocast for the lifetime of the object, with a cache of its own.
class AutocastGuard {
 public:
  AutocastGuard(std::optional<at::ScalarType> dtype, at::DeviceType device) : device_(device) {
    if (!dtype) return;
    on_ = true;
    before_ = at::autocast::is_autocast_enabled(device_);
    dtype_ = at::autocast::get_autocast_dtype(device_);
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, *dtype);
    at::autocast::increment_nesting();
  }
  ~AutocastGuard() {
    if (!on_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, before_);
    at::autocast::set_autocast_dtype(device_, dtype_);
  }
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  at::DeviceType device_;
  bool on_ = false, before_ = false;
  at::ScalarType dtype_ = at::kBFloat16;
};

template <typename T>
std::vector<T> slice(const std::vector<T>& values, const SubGroup& group) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(group.begin);
  return {begin, begin + static_cast<std::ptrdiff_t>(group.count)};
}

bool any(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), true) != flags.end();
}

/// [n] -> [n,1,...] of `like`'s rank and dtype.
at::Tensor alongMembers(const std::vector<double>& values, const at::Tensor& like) {
  std::vector<int64_t> sizes(static_cast<size_t>(like.dim()), 1);
  sizes[0] = static_cast<int64_t>(values.size());
  return at::tensor(values, at::kDouble).to(like.options()).view(sizes);
}

at::Tensor flagsAlong(const std::vector<bool>& flags, const at::Tensor& like) {
  const std::vector<double> numbers(flags.begin(), flags.end());
  return alongMembers(numbers, like).to(at::kBool);
}

/// The loss of a batch is a sum: its weights are in it already.
bool sumsRows(const FusedModel& model) {
  if (!model.loss) return false;
  const auto reduction = model.loss->arguments.find("reduction");
  return reduction != model.loss->arguments.end() && reduction->second.front() == "sum";
}

}  // namespace

Stepper::Stepper(FusedModel& model, const TrainOptions& options, RunState& state)
    : model_(model),
      options_(options),
      state_(state),
      now_(*model.optimizer),
      kernel_(hasUpdateKernel(model)),
      sums_rows_(sumsRows(model)),
      slots_(trainableSlots(model)),
      active_(model.k(), true),
      warned_(model.k(), false) {}

Executor& Stepper::executorOf(const SubGroup& group) {
  Part& part = parts_[{group.begin, group.count}];
  if (!part.executor) {
    const bool all = group.count == model_.k();
    part.executor = std::make_unique<Executor>(
        all ? model_ : viewMembers(model_, group.begin, group.count), options_.seed);
  }
  return *part.executor;
}

void Stepper::beginEpoch(const std::vector<bool>& active) {
  active_ = active;
  for (size_t k = 0; k < model_.k(); ++k) refreshRates(k);
  setActive({0, model_.k(), 0}, active_);
}

void Stepper::setActive(const SubGroup& group, const std::vector<bool>& flags) {
  bool* active = model_.active.data_ptr<bool>() + group.begin;
  for (size_t i = 0; i < group.count; ++i) active[i] = flags[i];
}

void Stepper::refreshRates(size_t k) {
  if (options_.schedules.empty()) return;
  const Schedule& schedule = options_.schedules[k];
  const PlateauState& plateau = state_.plateau[k];
  const int64_t t = schedule.per_step ? state_.updates[k] : state_.epoch;
  for (size_t g = 0; g <= now_.groups.size(); ++g) {
    auto& values = g ? now_.groups[g - 1].values : now_.values;
    const double base = hyperValues(*model_.optimizer, g).at("lr")[k];
    const double rate = schedule.observe ? (plateau.rates.empty() ? base : plateau.rates[g])
                                         : schedule.rate(base, t);
    if (values["lr"][k] != rate) ++version_;
    values["lr"][k] = rate;
    if (!schedule.momentum) continue;
    for (const char* name : {"momentum", "beta1"}) {
      const auto found = values.find(name);
      if (found == values.end()) continue;
      found->second[k] = schedule.momentum(t);
      ++version_;
    }
  }
}

void Stepper::pushRates(Executor& executor, const SubGroup& group) {
  Part& part = parts_[{group.begin, group.count}];
  if (options_.schedules.empty() || part.version == version_) return;
  part.version = version_;
  for (size_t g = 0; g <= now_.groups.size(); ++g) {
    const auto& values = hyperValues(now_, g);
    for (const char* name : {"lr", "momentum", "beta1"}) {
      const auto found = values.find(name);
      if (found == values.end()) continue;
      executor.setHyperparameter(name + hyperSuffix(g), slice(found->second, group));
    }
  }
}

void Stepper::step(const EpochPlan& plan, int64_t step, LossMean& losses, Metrics& metrics,
                   Diagnostics& diagnostics) {
  for (const SubGroup& group : plan.groups(step)) {
    if (any(slice(active_, group))) {
      groupStep(plan, group, step, losses, metrics, diagnostics);
    }
  }
}

int64_t Stepper::cycleLength(const EpochPlan& plan, size_t k, int64_t step) const {
  const int64_t begin = step / options_.accumulate * options_.accumulate;
  return std::min(options_.accumulate, plan.steps(k) - begin);
}

StepResult Stepper::compute(const EpochPlan& plan, const SubGroup& group, int64_t step,
                            const Batch& batch) {
  Executor& executor = executorOf(group);
  executor.train();
  executor.random().steps = slice(state_.micro_steps, group);
  const AutocastGuard autocast(options_.amp, model_.active.device().type());
  if (options_.amp != at::kHalf) return sayingAssertions([&] { return executor.step(batch); });
  // The loss is divided before the backward pass, as with GradScaler: what overflows is the same.
  std::vector<double> scales = slice(state_.scale, group);
  for (size_t i = 0; i < group.count; ++i)
    scales[i] /= static_cast<double>(cycleLength(plan, group.begin + i, step));
  StepResult result = sayingAssertions(
      [&] { return executor.step(batch, at::tensor(scales, at::kDouble).to(at::kFloat)); });
  for (at::Tensor& gradient : result.gradients) {
    if (gradient.numel() == 0) continue;
    std::vector<double> inverse;
    for (const double scale : scales) inverse.push_back(1 / scale);
    gradient = gradient * alongMembers(inverse, gradient);
  }
  return result;
}

void Stepper::report(size_t k, const char* what, Diagnostics& diagnostics) {
  if (!state_.ends[k].reason.empty() || warned_[k]) return;
  warned_[k] = true;
  const bool goes_on = options_.on_nan == OnNan::Continue, skips = options_.on_nan == OnNan::Skip;
  if (!goes_on) state_.ends[k].reason = std::string(what) + " not finite";
  diagnostics.add(warning(std::string("the ") + what + " of member " + std::to_string(k) + " ('" +
                          model_.member_names[k] + "') is not finite in epoch " +
                          std::to_string(state_.epoch + 1) + ", step " +
                          std::to_string(state_.step + 1) +
                          (goes_on ? ""
                           : skips ? "; it leaves out such updates"
                                   : "; it trains no further")));
}

std::vector<bool> Stepper::judge(const SubGroup& group, const StepResult& result,
                                 Diagnostics& diagnostics) {
  const at::Tensor losses = result.losses.to(at::kCPU, at::kDouble).contiguous();
  // What goes on anyway needs no look at its gradients.
  const bool goes_on = options_.on_nan == OnNan::Continue;
  const bool scaled = options_.amp == at::kHalf;
  const std::vector<bool> finite = goes_on && !scaled
                                       ? std::vector<bool>(group.count, true)
                                       : finiteMembers(result.gradients, group.count);
  std::vector<bool> good;
  for (size_t i = 0; i < group.count; ++i) {
    const size_t k = group.begin + i;
    const bool loss = std::isfinite(losses.data_ptr<double>()[i]);
    const bool moves = finite[i] && (loss || goes_on);
    good.push_back(active_[k] && moves);
    if (!active_[k]) continue;
    if (goes_on && !loss) report(k, "loss", diagnostics);
    if (moves) continue;
    state_.spoiled[k] = true;
    // An overflow of scaled gradients is what the scale is for.
    if (goes_on || (scaled && loss)) continue;
    report(k, loss ? "gradient" : "loss", diagnostics);
    if (options_.on_nan == OnNan::Skip || fault("nan_goes_on")) continue;
    active_[k] = false;
    state_.alive[k] = false;
  }
  return fault("nan_goes_on") ? slice(active_, group) : good;
}

std::vector<at::Tensor> Stepper::cycleGradients(const EpochPlan& plan, const SubGroup& group,
                                                int64_t step, const std::vector<bool>& good,
                                                StepResult& result, std::vector<bool>& moves) {
  if (options_.accumulate == 1) {
    moves = good;
    for (size_t i = 0; i < group.count; ++i) state_.spoiled[group.begin + i] = false;
    return std::move(result.gradients);
  }
  const int64_t cycle = step / options_.accumulate * options_.accumulate;
  std::vector<double> share;
  std::vector<bool> ends;
  for (size_t i = 0; i < group.count; ++i) {
    const int64_t parts = cycleLength(plan, group.begin + i, step);
    // 0 of a NaN would be a NaN: a spoiled cycle is left out altogether below.
    share.push_back(static_cast<double>(parts));
    ends.push_back(step - cycle + 1 == parts);
  }
  const auto begin = static_cast<int64_t>(group.begin), n = static_cast<int64_t>(group.count);
  std::vector<at::Tensor> whole;
  for (size_t i = 0; i < result.gradients.size(); ++i) {
    const at::Tensor& gradient = result.gradients[i];
    if (gradient.numel() == 0) {
      whole.push_back(gradient);
      continue;
    }
    at::Tensor& total = model_.extra["total." + std::to_string(i)];
    if (!total.defined()) total = at::zeros_like(model_.tensors[slots_[i]].detach());
    at::Tensor mine = total.narrow(0, begin, n);
    const at::Tensor part = gradient / alongMembers(share, gradient);
    mine.copy_(step == cycle ? part : mine + part);
    whole.push_back(mine);
  }
  moves.clear();
  for (size_t i = 0; i < group.count; ++i) {
    const size_t k = group.begin + i;
    moves.push_back(ends[i] && active_[k] && !state_.spoiled[k]);
    if (ends[i]) state_.spoiled[k] = false;
  }
  return any(ends) ? whole : std::vector<at::Tensor>();
}

void Stepper::groupStep(const EpochPlan& plan, const SubGroup& group, int64_t step,
                        LossMean& losses, Metrics& metrics, Diagnostics& diagnostics) {
  for (size_t k = group.begin; k < group.begin + group.count; ++k) {
    if (!options_.schedules.empty() && options_.schedules[k].per_step) refreshRates(k);
  }
  const Batch batch = plan.batch(group, step);
  StepResult result = compute(plan, group, step, batch);
  losses.add(result.losses, group, sums_rows_ ? at::Tensor() : batch.weight);
  if (!metrics.empty()) metrics.add(result.outputs, batch.target, group);
  const std::vector<bool> was_active = slice(active_, group);
  const std::vector<bool> good = judge(group, result, diagnostics);
  if (!result.updates.empty()) {
    setActive(group, good);
    executorOf(group).apply(result.updates);
  }
  std::vector<bool> moves;
  std::vector<at::Tensor> gradients = cycleGradients(plan, group, step, good, result, moves);
  if (!gradients.empty()) {
    if (any(moves)) update(group, std::move(gradients), moves);
    std::vector<bool> ended;
    for (size_t i = 0; i < group.count; ++i) {
      const size_t k = group.begin + i;
      const int64_t position = step % options_.accumulate;
      ended.push_back(was_active[i] &&
                      (position + 1 == options_.accumulate || step + 1 == plan.steps(k)));
      if (ended[i]) ++state_.updates[k];
      if (ended[i] && options_.amp == at::kHalf) {
        if (!moves[i]) {
          state_.scale[k] *= 0.5;
          state_.growth[k] = 0;
        } else if (++state_.growth[k] == 2000) {
          state_.scale[k] *= 2;
          state_.growth[k] = 0;
        }
      }
    }
  }
  for (size_t i = 0; i < group.count; ++i) {
    const size_t k = group.begin + i;
    state_.micro_steps[k] += was_active[i];
  }
  setActive(group, slice(active_, group));
}

void Stepper::update(const SubGroup& group, std::vector<at::Tensor> gradients,
                     const std::vector<bool>& moves) {
  if (!options_.clip_norm.empty()) clipNorm(gradients, slice(options_.clip_norm, group));
  if (!options_.clip_value.empty()) clipValue(gradients, slice(options_.clip_value, group));
  if (kernel_) {
    updateByKernel(model_, now_, group.begin, moves, gradients);
  } else {
    Executor& executor = executorOf(group);
    pushRates(executor, group);
    setActive(group, moves);
    executor.update(gradients);
  }
  if (!options_.ema.empty()) average(group, moves);
}

void Stepper::average(const SubGroup& group, const std::vector<bool>& moves) {
  const at::NoGradGuard no_grad;
  const auto begin = static_cast<int64_t>(group.begin), n = static_cast<int64_t>(group.count);
  std::vector<double> weights;
  for (size_t i = 0; i < group.count; ++i) {
    const size_t k = group.begin + i;
    weights.push_back(state_.averaged[k] ? 1 - options_.ema[k] : 1.0);  // begins as a copy
    if (moves[i]) state_.averaged[k] = true;
  }
  for (const size_t slot : slots_) {
    const at::Tensor p = model_.tensors[slot].detach().narrow(0, begin, n);
    at::Tensor mean = model_.extra.at("ema." + std::to_string(slot)).narrow(0, begin, n);
    const at::Tensor moved = at::lerp(mean, p, alongMembers(weights, p));
    mean.copy_(at::where(flagsAlong(moves, p), moved, mean));
  }
}

}  // namespace chorus
