#include "runtime/watch.h"

#include <cmath>

#include "chorus/diagnostics.h"
#include "lib/export/state.h"
#include "lib/support/fault.h"

namespace chorus {
namespace {

/// Everything of a member that training moves, by name.
std::map<std::string, at::Tensor> movingTensors(const FusedModel& model) {
  std::map<std::string, at::Tensor> tensors;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    if (model.stacked[i]) tensors["slot." + std::to_string(i)] = model.tensors[i].detach();
  }
  for (const auto& [name, tensor] : model.state) tensors["state." + name] = tensor;
  tensors["step"] = model.step;
  for (const auto& [name, tensor] : model.extra) {
    if (name.rfind("ema.", 0) == 0) tensors[name] = tensor;
  }
  return tensors;
}

void keepBest(FusedModel& model, size_t k) {
  const auto row = static_cast<int64_t>(k);
  const auto tensors = movingTensors(model);
  for (const auto& [name, tensor] : tensors) {
    at::Tensor& best = model.extra["best." + name];
    if (!best.defined()) best = tensor.clone();
    best[row].copy_(tensor[row]);
  }
}

std::string namesOf(const EpochResult& result) {
  std::string names = "train_loss";
  for (const auto& [name, values] : result.train_metrics) names += ", train_" + name;
  if (!result.validation) return names;
  names += ", val_loss";
  for (const auto& [name, values] : result.validation->metrics) names += ", val_" + name;
  return names;
}

bool improves(double value, std::optional<double> than, double by, bool maximised) {
  if (std::isnan(value)) return false;
  if (!than) return true;
  return maximised ? value > *than + by : value < *than - by;
}

}  // namespace

bool isMaximised(const std::string& monitor) {
  for (const char* name : {"loss", "mse", "mae", "perplexity"}) {
    if (monitor.ends_with(name)) return false;
  }
  return true;
}

std::vector<double> monitored(const EpochResult& result, const std::string& monitor) {
  const bool train = monitor.rfind("train_", 0) == 0;
  const std::string name = monitor.substr(monitor.find('_') + 1);
  if (train || monitor.rfind("val_", 0) == 0) {
    const auto* metrics = train               ? &result.train_metrics
                          : result.validation ? &result.validation->metrics
                                              : nullptr;
    if (train && name == "loss") return result.train_loss;
    if (metrics && name == "loss") return result.validation->loss;
    if (metrics && metrics->count(name)) return metrics->at(name);
  }
  throw Refused(usage("--monitor '" + monitor + "': this run has " + namesOf(result)));
}

void watch(FusedModel& model, const TrainOptions& options, RunState& state,
           const EpochResult& result, const OptimizerSpec& values) {
  bool plateau = false;
  for (const Schedule& schedule : options.schedules) plateau = plateau || schedule.observe;
  if (options.patience.empty() && !options.restore_best && !plateau) return;
  const at::NoGradGuard no_grad;
  const std::vector<double> now = monitored(result, options.monitor);
  const bool maximised = isMaximised(options.monitor);
  for (size_t k = 0; k < model.k(); ++k) {
    if (!result.active[k]) continue;
    const double delta = options.min_delta.empty() ? 0 : options.min_delta[k];
    // One notion of better, as Keras has it: a gain too small to count for patience is none here.
    if (options.restore_best && state.alive[k] &&
        improves(now[k], state.best[k], fault("best_is_least") ? 0 : delta, maximised)) {
      state.best[k] = now[k];
      state.best_epoch[k] = result.epoch;
      keepBest(model, k);
    }
    if (!options.schedules.empty() && options.schedules[k].observe) {
      PlateauState& mine = state.plateau[k];
      if (mine.rates.empty()) {
        for (size_t g = 0; g <= values.groups.size(); ++g)
          mine.rates.push_back(hyperValues(values, g).at("lr")[k]);
      }
      options.schedules[k].observe(mine, now[k], maximised);
    }
    if (options.patience.empty()) continue;
    if (improves(now[k], state.reference[k], delta, maximised)) {
      state.reference[k] = now[k];
      state.bad_epochs[k] = 0;
    } else if (++state.bad_epochs[k] >= options.patience[k] && state.alive[k]) {
      state.alive[k] = false;
      state.ends[k].reason = "stopped early";
    }
  }
}

void restoreBest(FusedModel& model, RunState& state) {
  const at::NoGradGuard no_grad;
  auto tensors = movingTensors(model);
  for (size_t k = 0; k < model.k(); ++k) {
    if (state.best_epoch[k] == 0) continue;
    state.ends[k].best_epoch = state.best_epoch[k];
    const auto row = static_cast<int64_t>(fault("best_of_member_zero") ? 0 : k);
    for (auto& [name, tensor] : tensors) {
      const auto best = model.extra.find("best." + name);
      if (best != model.extra.end()) tensor[static_cast<int64_t>(k)].copy_(best->second[row]);
    }
  }
  std::erase_if(model.extra, [](const auto& entry) { return entry.first.rfind("best.", 0) == 0; });
}

}  // namespace chorus
