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
  return mine;
}

TrainOptions ofMember(const TrainOptions& options, size_t k) {
  TrainOptions mine = options;
  mine.epochs = {options.epochs[k]};
  if (!options.clip_norm.empty()) mine.clip_norm = {options.clip_norm[k]};
  if (!options.clip_value.empty()) mine.clip_value = {options.clip_value[k]};
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

/// Writes member k's epoch into the results of all.
void merge(std::vector<EpochResult>& all, const EpochResult& mine, size_t k, size_t members) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const auto at = static_cast<size_t>(mine.epoch) - 1;
  if (all.size() <= at) all.resize(at + 1);
  EpochResult& result = all[at];
  result.epoch = mine.epoch;
  result.active.resize(members, false);
  result.train_loss.resize(members, none);
  result.active[k] = mine.active[0];
  result.train_loss[k] = mine.train_loss[0];
  result.seconds += mine.seconds;
  if (!mine.validation) return;
  if (!result.validation) result.validation.emplace();
  result.validation->loss.resize(members, none);
  result.validation->loss[k] = mine.validation->loss[0];
  if (mine.validation->metric.empty()) return;
  result.validation->metric.resize(members, none);
  result.validation->metric[k] = mine.validation->metric[0];
}

std::vector<EpochResult> trainApart(const RunOptions& options, FusedModel& model,
                                    const RunData& data, const TrainOptions& train_options,
                                    Diagnostics& diagnostics) {
  model.state = optimizerState(model);
  std::vector<EpochResult> all;
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
    for (const EpochResult& result : train(solo, mine, validation ? &*validation : nullptr,
                                           ofMember(train_options, k), observer, diagnostics)) {
      merge(all, result, k, model.k());
    }
    putBack(model, solo, k);
  }
  EpochReporter reporter(options, model, data);
  for (const EpochResult& result : all) reporter.report(result, all.back().epoch);
  return all;
}

}  // namespace

int64_t batchSize(const RunOptions& options, size_t k) {
  const std::vector<int64_t> sizes =
      integersOf(options, "batch-size", options.batch_size, "32", k, 1);
  if (std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) != sizes.end()) {
    throw Refused(
        unsupported("different values of --batch-size for the members of one fused file"));
  }
  return sizes.front();
}

TrainOptions trainOptions(const RunOptions& options, size_t k) {
  TrainOptions train_options;
  train_options.epochs = integersOf(options, "epochs", options.epochs, "1", k, 0);
  train_options.batch_size = batchSize(options, k);
  train_options.drop_last = options.drop_last;
  train_options.shuffle = options.shuffle == "none"     ? Shuffle::None
                          : options.shuffle == "member" ? Shuffle::Member
                                                        : Shuffle::Shared;
  train_options.seed = options.seed;
  train_options.accumulate = options.accumulate;
  train_options.clip_norm = limitsOf(options, "clip-norm", options.clip_norm, k);
  train_options.clip_value = limitsOf(options, "clip-value", options.clip_value, k);
  return train_options;
}

std::vector<EpochResult> runTraining(const RunOptions& options, FusedModel& model,
                                     const RunData& data, Diagnostics& diagnostics) {
  const TrainOptions train_options = trainOptions(options, model.k());
  if (options.unfused) return trainApart(options, model, data, train_options, diagnostics);
  EpochReporter reporter(options, model, data);
  const int64_t last = *std::max_element(train_options.epochs.begin(), train_options.epochs.end());
  std::optional<ProgressBar> bar;
  TrainObserver observer;
  observer.on_batch = [&](int64_t epoch, int64_t done, int64_t count) {
    if (done == 1) {
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
  return train(model, data.train, data.validation ? &*data.validation : nullptr, train_options,
               observer, diagnostics);
}

}  // namespace chorus
