#include "tools/chorus-run/training.h"

#include "tools/chorus-run/report.h"
#include "tools/chorus-run/train_apart.h"
#include "tools/common/terminal.h"
#include "tools/common/values.h"

namespace chorus {
namespace {

const HparamsTable* tableWith(const RunOptions& options, const std::string& column, bool given) {
  const auto& table = options.training.table;
  if (!table || !table->has(column)) return nullptr;
  if (given) {
    throw Refused(
        usage("'" + column + "' is given by --" + column + " and by a column of " + table->file));
  }
  return &*table;
}

std::vector<int64_t> integersOf(const RunOptions& options, const std::string& name,
                                const std::string& text, const std::string& standard, size_t k,
                                int64_t minimum) {
  const HparamsTable* table = tableWith(options, name, !text.empty());
  const std::vector<int64_t> values =
      table ? integers(*table, name)
            : oneOrKIntegers("--" + name, text.empty() ? standard : text, k);
  for (int64_t value : values) {
    if (value >= minimum) continue;
    throw Refused(error("--" + name + " is " + std::to_string(value) + ", but has to be at least " +
                        std::to_string(minimum)));
  }
  return values;
}

std::vector<double> limitsOf(const RunOptions& options, const std::string& name,
                             const std::string& text, size_t k) {
  const HparamsTable* table = tableWith(options, name, !text.empty());
  if (!table && text.empty()) return {};
  const std::vector<double> values = table ? numbers(*table, name) : oneOrK("--" + name, text, k);
  for (double value : values) {
    if (value < 0)
      throw Refused(error("--" + name + " is " + numberText(value) + ", but has to be 0 or more"));
  }
  return values;
}

/// K schedules between ';', or a column of the table.
std::vector<Schedule> schedulesOf(const RunOptions& options, size_t k) {
  const HparamsTable* table = tableWith(options, "lr-schedule", !options.schedule.empty());
  if (!table && options.schedule.empty()) return {};
  std::vector<Schedule> schedules;
  for (const std::string& text : table ? texts(*table, "lr-schedule")
                                       : oneOrKTexts("--lr-schedule", options.schedule, k, ';')) {
    schedules.push_back(parseSchedule(text.empty() ? "constant" : text));
  }
  return schedules;
}

std::vector<double> decaysOf(const RunOptions& options, size_t k) {
  const HparamsTable* table = tableWith(options, "ema", !options.ema.empty());
  if (!table && options.ema.empty()) return {};
  const std::vector<double> decays =
      table ? numbers(*table, "ema") : oneOrK("--ema", options.ema, k);
  for (const double decay : decays) {
    if (decay >= 0 && decay < 1) continue;
    throw Refused(error("--ema is " + numberText(decay) + ", but has to be in [0, 1)"));
  }
  return decays;
}

void setAverages(const RunOptions& options, size_t k, TrainOptions& train) {
  train.ema = decaysOf(options, k);
  if (tableWith(options, "swa", !options.swa.empty()) || !options.swa.empty()) {
    train.swa = integersOf(options, "swa", options.swa, "", k, 1);
  }
  train.recalibrate = options.recalibrate;
  if (train.swa.empty()) return;
  if (!train.ema.empty()) throw Refused(usage("--ema and --swa exclude each other"));
  if (options.restore == "best") {
    throw Refused(usage("--swa averages epochs; --restore best takes one of them"));
  }
  for (size_t i = 0; i < k; ++i) {
    if (train.swa[i] <= train.epochs[i]) continue;
    throw Refused(error("--swa begins at epoch " + std::to_string(train.swa[i]) +
                        ", but there are " + std::to_string(train.epochs[i]) + " epochs"));
  }
}

void setStopping(const RunOptions& options, size_t k, bool validates, TrainOptions& train) {
  const HparamsTable* table = tableWith(options, "patience", !options.patience.empty());
  if (table || !options.patience.empty()) {
    train.patience = integersOf(options, "patience", options.patience, "", k, 1);
  }
  train.min_delta = limitsOf(options, "min-delta", options.min_delta, k);
  if (!train.min_delta.empty() && train.patience.empty()) {
    throw Refused(usage("--min-delta is for --patience"));
  }
  train.restore_best = options.restore.empty() ? !train.patience.empty() && train.swa.empty()
                                               : options.restore == "best";
  bool watches = !train.patience.empty() || train.restore_best;
  for (const Schedule& schedule : train.schedules) watches = watches || schedule.observe;
  train.monitor = !options.monitor.empty() ? options.monitor
                  : validates              ? "val_loss"
                                           : "train_loss";
  if (!options.monitor.empty() && !watches) {
    throw Refused(usage("--monitor is for --patience, --restore best and reduce_on_plateau"));
  }
  if (!validates && train.monitor.rfind("val_", 0) == 0) {
    throw Refused(usage("--monitor " + train.monitor + " needs --val, --val-fraction or --folds"));
  }
  if (!validates && options.monitor.empty() && !train.patience.empty()) {
    throw Refused(usage("--patience watches val_loss, but there is no validation data")
                      .helpWith("give --val or --val-fraction, or --monitor train_loss"));
  }
}

}  // namespace

std::vector<std::string> metricNames(const RunOptions& options) {
  return options.metrics.empty() ? std::vector<std::string>() : splitText(options.metrics, ',');
}

std::vector<int64_t> batchSizes(const RunOptions& options, size_t k) {
  return integersOf(options, "batch-size", options.batch_size, "32", k, 1);
}

TrainOptions trainOptions(const RunOptions& options, size_t k, const RunData& data) {
  TrainOptions train;
  train.epochs = integersOf(options, "epochs", options.epochs, "1", k, 0);
  train.batch_size = batchSizes(options, k);
  train.drop_last = options.drop_last;
  train.shuffle = options.shuffle == "none"     ? Shuffle::None
                  : options.shuffle == "member" ? Shuffle::Member
                                                : Shuffle::Shared;
  train.seed = options.seed;
  train.accumulate = options.accumulate;
  train.clip_norm = limitsOf(options, "clip-norm", options.clip_norm, k);
  train.clip_value = limitsOf(options, "clip-value", options.clip_value, k);
  train.on_nan = options.on_nan == "continue" ? OnNan::Continue
                 : options.on_nan == "freeze" ? OnNan::Freeze
                 : options.on_nan == "skip"   ? OnNan::Skip
                                              : OnNan::Stop;
  train.schedules = schedulesOf(options, k);
  setAverages(options, k, train);
  if (!options.amp.empty()) train.amp = options.amp == "bf16" ? at::kBFloat16 : at::kHalf;
  train.metrics = metricNames(options);
  train.rows = data.rows;
  train.validation_rows = data.validation_rows;
  train.checkpoint_every = options.checkpoint_every;
  setStopping(options, k, data.validation.has_value(), train);
  return train;
}

TrainResult runTraining(const RunOptions& options, FusedModel& model, const RunData& data,
                        const TrainOptions& train_options, CheckpointFolder& checkpoints,
                        Diagnostics& diagnostics) {
  const SignalScope signals;
  if (options.unfused) {
    return trainApart(options, model, data, train_options, checkpoints, diagnostics);
  }
  EpochReporter reporter(options, model, data);
  const int64_t last = *std::max_element(train_options.epochs.begin(), train_options.epochs.end());
  std::optional<ProgressBar> bar;
  TrainObserver observer;
  int64_t shown = 0;
  observer.on_batch = [&](int64_t epoch, int64_t done, int64_t count) {
    if (shown != epoch) {
      shown = epoch;
      bar.emplace("epoch " + std::to_string(epoch) + "/" + std::to_string(last),
                  static_cast<size_t>(count), options.quiet);
    }
    bar->update(static_cast<size_t>(done));
  };
  if (options.quiet) observer.on_batch = nullptr;
  observer.on_epoch = [&](const EpochResult& result) {
    bar.reset();
    reporter.report(result, last);
  };
  observer.should_stop = [] { return interrupted(); };
  observer.checkpoint = [&](const FusedModel& now, bool urgent) { checkpoints.write(now, urgent); };
  return train(model, data.train, data.validation ? &*data.validation : nullptr, train_options,
               observer, diagnostics);
}

}  // namespace chorus
