#include "tools/chorus-run/training.h"

#include "lib/export/state.h"
#include "tools/chorus-run/report.h"
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

/// Member k's own rows of stacked arrays, as a stacked array of one member.
Dataset ofMember(const Dataset& data, size_t k) {
  Dataset mine = data;
  const auto slice = [k](DataArray& array) {
    if (array.stacked) array.values = array.values.narrow(0, static_cast<int64_t>(k), 1);
  };
  for (DataArray& array : mine.inputs) slice(array);
  if (mine.target) slice(*mine.target);
  for (DataArray& array : mine.more) slice(array);
  if (mine.weights) slice(*mine.weights);
  return mine;
}

template <typename T>
void keepOnly(std::vector<T>& values, size_t k) {
  if (!values.empty()) values = {values[k]};
}

TrainOptions ofMember(const TrainOptions& options, size_t k) {
  TrainOptions mine = options;
  keepOnly(mine.epochs, k);
  keepOnly(mine.batch_size, k);
  keepOnly(mine.clip_norm, k);
  keepOnly(mine.clip_value, k);
  keepOnly(mine.schedules, k);
  keepOnly(mine.rows, k);
  keepOnly(mine.validation_rows, k);
  keepOnly(mine.patience, k);
  keepOnly(mine.min_delta, k);
  keepOnly(mine.ema, k);
  return mine;
}

/// Puts a member that was trained alone back into its slice.
void putBack(FusedModel& model, const FusedModel& solo, size_t k) {
  const at::NoGradGuard no_grad;
  const auto put = [k](at::Tensor to, const at::Tensor& from) {
    to[static_cast<int64_t>(k)].copy_(from[0]);
  };
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    if (model.stacked[i]) put(model.tensors[i].detach(), solo.tensors[i].detach());
  }
  put(model.step, solo.step);
  for (auto& [name, tensor] : model.state) put(tensor, solo.state.at(name));
}

/// Writes member k's numbers into those of all.
void mergeNumbers(std::vector<double>& all, const std::vector<double>& mine, size_t k,
                  size_t members) {
  all.resize(members, std::numeric_limits<double>::quiet_NaN());
  all[k] = mine.at(0);
}

void mergeEpoch(std::vector<EpochResult>& all, const EpochResult& mine, size_t k, size_t members) {
  const auto at = static_cast<size_t>(mine.epoch) - 1;
  if (all.size() <= at) all.resize(at + 1);
  EpochResult& result = all[at];
  result.epoch = mine.epoch;
  result.active.resize(members, false);
  result.active[k] = mine.active[0];
  result.seconds += mine.seconds;
  mergeNumbers(result.train_loss, mine.train_loss, k, members);
  mergeNumbers(result.lr, mine.lr, k, members);
  for (const auto& [name, values] : mine.train_metrics)
    mergeNumbers(result.train_metrics[name], values, k, members);
  if (!mine.validation) return;
  if (!result.validation) result.validation.emplace();
  mergeNumbers(result.validation->loss, mine.validation->loss, k, members);
  for (const auto& [name, values] : mine.validation->metrics)
    mergeNumbers(result.validation->metrics[name], values, k, members);
}

TrainResult trainApart(const RunOptions& options, FusedModel& model, const RunData& data,
                       const TrainOptions& train_options, Diagnostics& diagnostics) {
  model.state = optimizerState(model);
  TrainResult all;
  all.members.resize(model.k());
  for (size_t k = 0; k < model.k(); ++k) {
    FusedModel solo = selectMembers(model, {k});
    const Dataset mine = ofMember(data.train, k);
    const std::optional<Dataset> validation =
        data.validation ? std::optional(ofMember(*data.validation, k)) : std::nullopt;
    ProgressBar bar(model.member_names[k], static_cast<size_t>(train_options.epochs[k]),
                    options.quiet);
    TrainObserver observer;
    observer.on_epoch = [&](const EpochResult& result) {
      bar.update(static_cast<size_t>(result.epoch));
    };
    const TrainResult result = train(solo, mine, validation ? &*validation : nullptr,
                                     ofMember(train_options, k), observer, diagnostics);
    for (const EpochResult& epoch : result.epochs) mergeEpoch(all.epochs, epoch, k, model.k());
    all.members[k] = result.members[0];
    putBack(model, solo, k);
  }
  EpochReporter reporter(options, model, data);
  for (const EpochResult& result : all.epochs) reporter.report(result, all.epochs.back().epoch);
  return all;
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

void setStopping(const RunOptions& options, size_t k, bool validates, TrainOptions& train) {
  const HparamsTable* table = tableWith(options, "patience", !options.patience.empty());
  if (table || !options.patience.empty()) {
    train.patience = integersOf(options, "patience", options.patience, "", k, 1);
  }
  train.min_delta = limitsOf(options, "min-delta", options.min_delta, k);
  if (!train.min_delta.empty() && train.patience.empty()) {
    throw Refused(usage("--min-delta is for --patience"));
  }
  train.restore_best =
      options.restore.empty() ? !train.patience.empty() : options.restore == "best";
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
  train.ema = decaysOf(options, k);
  if (!options.amp.empty()) train.amp = options.amp == "bf16" ? at::kBFloat16 : at::kHalf;
  train.metrics = metricNames(options);
  train.rows = data.rows;
  train.validation_rows = data.validation_rows;
  train.checkpoint_every = options.checkpoint_every;
  setStopping(options, k, data.validation.has_value(), train);
  return train;
}

TrainResult runTraining(const RunOptions& options, FusedModel& model, const RunData& data,
                        CheckpointFolder& checkpoints, Diagnostics& diagnostics) {
  const TrainOptions train_options = trainOptions(options, model.k(), data);
  if (options.unfused) return trainApart(options, model, data, train_options, diagnostics);
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
  const SignalScope signals;
  return train(model, data.train, data.validation ? &*data.validation : nullptr, train_options,
               observer, diagnostics);
}

}  // namespace chorus
