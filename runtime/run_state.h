// Where a training run stands: with the model, all that a checkpoint needs to go on bit for bit.
#pragma once

#include <nlohmann/json.hpp>

#include "chorus/trainer.h"
#include "runtime/metrics.h"

namespace chorus {

struct RunState {
  explicit RunState(size_t k);

  int64_t epoch = 0, step = 0;  ///< the next ones, from 0
  std::vector<bool> alive;      ///< neither stopped early nor frozen
  std::vector<MemberEnd> ends;
  std::vector<int64_t> micro_steps;  ///< batches seen: what masks are drawn for
  std::vector<int64_t> updates;      ///< updates tried: what schedules count per step
  std::vector<bool> spoiled;         ///< a micro-batch of the running cycle was not finite
  std::vector<PlateauState> plateau;
  std::vector<double> scale;      ///< loss scale of --amp fp16
  std::vector<int64_t> growth;    ///< updates since the scale moved
  std::vector<bool> averaged;     ///< the moving average has begun
  std::vector<int64_t> averages;  ///< epochs in the average of --swa

  // Of the watched value.
  std::vector<std::optional<double>> best;       ///< of the epoch that is kept to be restored
  std::vector<std::optional<double>> reference;  ///< the last one that counted as an improvement
  std::vector<int64_t> best_epoch, bad_epochs;

  // Of the epoch that is under way.
  std::vector<bool> taking_part;
  LossMean losses;
  std::map<std::string, at::Tensor> metric_sums;
  double seconds = 0;

  std::vector<EpochResult> history;

  nlohmann::json toJson() const;
  /// Throws where it is not what toJson writes for `k` members.
  static RunState fromJson(const nlohmann::json& value, size_t k);
};

/// What a run came to, for checkpoints that hold several runs.
nlohmann::json resultJson(const TrainResult& result);
TrainResult resultFrom(const nlohmann::json& value);

}  // namespace chorus
