#include "tools/chorus-run/checkpoints.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>

#include "lib/support/atomic_file.h"
#include "tools/common/command_line.h"

namespace chorus {
namespace {

namespace fs = std::filesystem;

volatile std::sig_atomic_t signals_seen = 0;

extern "C" void onSignal(int) {
  signals_seen = signals_seen + 1;
  if (signals_seen < 2) return;
  removeTemporaryFiles();
  _exit(130);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Everything that decides the numbers, but the epochs: those are a total.
nlohmann::json optionsJson(const RunOptions& o) {
  nlohmann::json values = {{"data", o.data},
                           {"val", o.validation},
                           {"keys", o.keys},
                           {"inputs", o.inputs},
                           {"targets", o.targets},
                           {"folds", o.folds},
                           {"bootstrap", o.bootstrap},
                           {"subset", o.subset},
                           {"batch-size", o.batch_size},
                           {"member-seed", o.member_seeds},
                           {"clip-norm", o.clip_norm},
                           {"clip-value", o.clip_value},
                           {"lr-schedule", o.schedule},
                           {"patience", o.patience},
                           {"min-delta", o.min_delta},
                           {"monitor", o.monitor},
                           {"restore", o.restore},
                           {"ema", o.ema},
                           {"amp", o.amp},
                           {"metric", o.metrics},
                           {"on-nan", o.on_nan},
                           {"shuffle", o.shuffle},
                           {"drop-last", o.drop_last},
                           {"seed", o.seed},
                           {"accumulate", o.accumulate},
                           {"loss", o.training.loss},
                           {"loss-arg", o.training.loss_arguments},
                           {"optimizer", o.training.optimizer},
                           {"hparams", o.training.hparams},
                           {"param-groups", o.training.parameter_groups},
                           {"MODEL", o.models}};
  if (o.validation_fraction) values["val-fraction"] = *o.validation_fraction;
  for (const auto& [name, text] : o.training.values) {
    if (!text.empty()) values[name] = text;
  }
  for (const auto& [name, on] : o.training.flags) {
    if (on) values[name] = true;
  }
  return values;
}

std::string shown(const nlohmann::json& values, const std::string& name) {
  if (!values.contains(name) || values.at(name) == "") return "not given";
  return values.at(name).dump();
}

}  // namespace

bool interrupted() { return signals_seen > 0; }

SignalScope::SignalScope() {
  std::signal(SIGINT, onSignal);
  std::signal(SIGTERM, onSignal);
}

SignalScope::~SignalScope() { removeTemporaryFilesOnSignal(); }

CheckpointFolder::CheckpointFolder(const RunOptions& options)
    : options_(optionsJson(options)), written_(now()) {
  named_ = !options.checkpoint.empty() || !options.resume.empty();
  const std::string standard = fs::path(options.output).replace_extension(".ckpt").string();
  folder_ = !options.resume.empty()       ? options.resume
            : !options.checkpoint.empty() ? options.checkpoint
                                          : standard;
  // A run that was resumed in its default folder cleans up behind itself like one that was not.
  const auto plain = [](const std::string& path) {
    return (fs::path(path) / "").lexically_normal();
  };
  if (plain(folder_) == plain(standard)) named_ = false;
  if (fs::exists(folder_) && !fs::is_directory(folder_)) {
    throw Refused(error("the checkpoint folder is no folder", Place{folder_}));
  }
  if (options.resume.empty() && fs::exists(file())) {
    throw Refused(usage("the folder '" + folder_ + "' holds the checkpoint of another run")
                      .helpWith("--resume " + folder_ + " goes on with it; or remove the folder"));
  }
}

FusedModel CheckpointFolder::load() const {
  if (!fs::exists(file())) {
    throw Refused(error("there is no checkpoint in this folder", Place{folder_}));
  }
  FusedModel model = readFused(file());
  if (!model.info.contains("run") || !model.info.contains("run_options")) {
    throw Refused(error("this is not a checkpoint", Place{file()}));
  }
  const nlohmann::json before = model.info.at("run_options");
  for (const auto* all : {&options_, &before}) {
    for (const auto& [name, value] : all->items()) {
      if (before.contains(name) && options_.contains(name) && before.at(name) == options_.at(name))
        continue;
      throw Refused(error("--" + name + " is " + shown(options_, name) +
                              ", but the checkpointed run had " + shown(before, name),
                          Place{folder_})
                        .note("a run goes on with its own options; only --epochs may grow"));
    }
  }
  model.info.erase("run_options");
  return model;
}

void CheckpointFolder::write(const FusedModel& model, bool urgent) {
  const double begin = now();
  if (!urgent && !named_ && spent_ > 0 && begin - written_ < 20 * spent_) return;
  FusedModel copy = model;
  copy.info["run_options"] = options_;
  fs::create_directories(folder_);
  writeFused(copy, file());
  written_ = now();
  spent_ = written_ - begin;
}

void CheckpointFolder::finish() {
  if (named_) return;
  std::error_code ignored;
  fs::remove(file(), ignored);
  fs::remove(folder_, ignored);
}

}  // namespace chorus
