#include "tools/chorus-run/train_apart.h"

#include "lib/export/state.h"
#include "runtime/run_state.h"
#include "tools/chorus-run/report.h"
#include "tools/common/terminal.h"

namespace chorus {
namespace {

using nlohmann::json;

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
  keepOnly(mine.swa, k);
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
  for (const auto& [name, tensor] : solo.extra) {
    at::Tensor& all = model.extra[name];
    if (!all.defined()) {
      std::vector<int64_t> sizes = tensor.sizes().vec();  // [1,...] -> [K,...]
      sizes[0] = static_cast<int64_t>(model.k());
      all = at::zeros(sizes, tensor.options());
    }
    put(all, tensor);
  }
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

void mergeResult(TrainResult& all, const TrainResult& mine, size_t k, size_t members) {
  for (const EpochResult& epoch : mine.epochs) mergeEpoch(all.epochs, epoch, k, members);
  all.members[k] = mine.members.at(0);
  if (!mine.written) return;
  if (!all.written) all.written.emplace();
  mergeNumbers(all.written->loss, mine.written->loss, k, members);
  for (const auto& [name, values] : mine.written->metrics)
    mergeNumbers(all.written->metrics[name], values, k, members);
}

/// Which of the further tensors are those of each member: the others of a [K,...] are not set.
using ExtraNames = std::vector<std::vector<std::string>>;

std::vector<std::string> namesOf(const std::map<std::string, at::Tensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

/// Where a run of one member after another stands.
struct ApartState {
  std::vector<TrainResult> done;  ///< K = 1 each
  json now;                       ///< RunState of the next member; null: it has not begun
  ExtraNames extra;

  json toJson() const {
    json results = json::array();
    for (const TrainResult& result : done) results.push_back(resultJson(result));
    return {{"done", results}, {"now", now}, {"extra", extra}};
  }
};

ApartState startState(FusedModel& model) {
  ApartState state;
  state.extra.assign(model.k(), namesOf(model.extra));
  if (!model.info.is_object() || !model.info.contains("run")) return state;
  try {
    const json& run = model.info.at("run").at("apart");
    for (const json& result : run.at("done")) state.done.push_back(resultFrom(result));
    state.now = run.at("now");
    state.extra = run.at("extra").get<ExtraNames>();
    if (state.extra.size() != model.k() || state.done.size() > model.k()) {
      throw std::runtime_error("the run has another number of members");
    }
    model.info.erase("run");
    return state;
  } catch (const std::exception& failure) {
    throw Refused(error("the checkpoint is damaged").note(failure.what()));
  }
}

FusedModel soloOf(const FusedModel& model, const ApartState& state, size_t k) {
  FusedModel solo = selectMembers(model, {k});
  const std::vector<std::string>& mine = state.extra[k];
  std::erase_if(solo.extra, [&](const auto& entry) {
    return std::count(mine.begin(), mine.end(), entry.first) == 0;
  });
  if (!state.now.is_null()) solo.info["run"] = state.now;
  return solo;
}

/// What no member has any more.
void dropUnused(FusedModel& model, const ExtraNames& extra) {
  std::erase_if(model.extra, [&](const auto& entry) {
    return std::none_of(extra.begin(), extra.end(), [&](const auto& names) {
      return std::count(names.begin(), names.end(), entry.first) > 0;
    });
  });
}

}  // namespace

TrainResult trainApart(const RunOptions& options, FusedModel& model, const RunData& data,
                       const TrainOptions& train_options, CheckpointFolder& checkpoints,
                       Diagnostics& diagnostics) {
  model.state = optimizerState(model);
  ApartState state = startState(model);
  TrainResult all;
  all.members.resize(model.k());
  for (size_t k = 0; k < state.done.size(); ++k) mergeResult(all, state.done[k], k, model.k());
  for (size_t k = state.done.size(); k < model.k() && !all.interrupted; ++k) {
    FusedModel solo = soloOf(model, state, k);
    const Dataset mine = ofMember(data.train, k);
    const std::optional<Dataset> validation =
        data.validation ? std::optional(ofMember(*data.validation, k)) : std::nullopt;
    ProgressBar bar(model.member_names[k], static_cast<size_t>(train_options.epochs[k]),
                    options.quiet);
    TrainObserver observer;
    observer.on_epoch = [&](const EpochResult& result) {
      bar.update(static_cast<size_t>(result.epoch));
    };
    observer.should_stop = [] { return interrupted(); };
    observer.checkpoint = [&](const FusedModel& now, bool urgent) {
      putBack(model, now, k);
      state.now = now.info.at("run");
      state.extra[k] = namesOf(now.extra);
      model.info["run"] = {{"apart", state.toJson()}};
      checkpoints.write(model, urgent);
      model.info.erase("run");
    };
    TrainResult result = train(solo, mine, validation ? &*validation : nullptr,
                               ofMember(train_options, k), observer, diagnostics);
    putBack(model, solo, k);
    state.extra[k] = namesOf(solo.extra);
    state.now = json();
    all.interrupted = result.interrupted;
    mergeResult(all, result, k, model.k());
    state.done.push_back(std::move(result));
  }
  dropUnused(model, state.extra);
  if (all.interrupted) return all;
  EpochReporter reporter(options, model, data);
  for (const EpochResult& result : all.epochs) reporter.report(result, all.epochs.back().epoch);
  return all;
}

}  // namespace chorus
