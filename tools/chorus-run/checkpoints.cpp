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

std::string shown(const nlohmann::json& values, const std::string& name) {
  if (!values.contains(name) || values.at(name) == "") return "not given";
  return values.at(name).dump();
}

}  // namespace

nlohmann::json decisiveOptions(const RunOptions& o) {
  nlohmann::json values = {{"data", o.data},
                           {"val", o.validation},
                           {"keys", o.keys},
                           {"inputs", o.inputs},
                           {"targets", o.targets},
                           {"folds", o.folds},
                           {"bootstrap", o.bootstrap},
                           {"subset", o.subset},
                           {"sample-weight", o.sample_weight},
                           {"optimizer-state", o.optimizer_state},
                           {"keep-optimizer", o.keep_optimizer},
                           {"target", o.training.target},
                           {"input", o.input_specs},
                           {"mode", o.mode},
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
                           {"swa", o.swa},
                           {"recalibrate", o.recalibrate},
                           {"amp", o.amp},
                           {"metric", o.metrics},
                           {"on-nan", o.on_nan},
                           {"shuffle", o.shuffle},
                           {"drop-last", o.drop_last},
                           {"seed", o.seed},
                           {"accumulate", o.accumulate},
                           {"unfused", o.unfused},
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
  // Members that are done do not go on.
  if (o.unfused) values["epochs"] = o.epochs;
  for (const auto& [name, on] : o.training.flags) {
    if (on) values[name] = true;
  }
  return values;
}

bool interrupted() { return signals_seen > 0; }

SignalScope::SignalScope() {
  std::signal(SIGINT, onSignal);
  std::signal(SIGTERM, onSignal);
}

SignalScope::~SignalScope() { removeTemporaryFilesOnSignal(); }

std::string standardFolder(const RunOptions& options) {
  return fs::path(options.output).replace_extension(".ckpt").string();
}

std::string checkpointFolder(const RunOptions& options) {
  if (!options.resume.empty()) return options.resume;
  if (!options.checkpoint.empty()) return options.checkpoint;
  return standardFolder(options);
}

CheckpointFolder::CheckpointFolder(const RunOptions& options)
    : options_(decisiveOptions(options)), written_(now()) {
  named_ = !options.checkpoint.empty() || !options.resume.empty();
  folder_ = checkpointFolder(options);
  // A run that was resumed in its default folder cleans up behind itself like one that was not.
  const auto plain = [](const std::string& path) {
    return (fs::path(path) / "").lexically_normal();
  };
  if (plain(folder_) == plain(standardFolder(options))) named_ = false;
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
    throw Refused(error(fs::exists(folder_) ? "there is no checkpoint in this folder"
                                            : "there is no such folder to resume from",
                        Place{folder_})
                      .note("a run writes its checkpoint at the end of an epoch, every "
                            "--checkpoint-every steps, and when it is interrupted; after success "
                            "only a folder that --checkpoint names is left"));
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
                        .note(std::string("a run goes on with its own options") +
                              (options_.at("unfused") == true ? "" : "; only --epochs may grow")));
    }
  }
  checkInputs(model);
  model.info.erase("run_options");
  model.info.erase("run_inputs");
  return model;
}

void CheckpointFolder::checkInputs(const FusedModel& model) const {
  if (!model.info.contains("run_inputs")) return;  // of a version that wrote none
  const nlohmann::json& before = model.info.at("run_inputs");
  for (const auto* all : {&inputs_, &before}) {
    for (const auto& [what, any] : all->items()) {
      const std::string now = inputs_.value(what, "none"), then = before.value(what, "none");
      if (now == then) continue;
      throw Refused(error(what +
                              (what.ends_with("numbers") || what.starts_with("the seeds")
                                   ? " are not what they were"
                                   : " is not what it was") +
                              " when the run began: the hash is " + now + ", and was " + then,
                          Place{folder_})
                        .note("a run goes on with the model and the data that it began with"));
    }
  }
}

void CheckpointFolder::write(const FusedModel& model, bool urgent) {
  const double begin = now();
  if (!urgent && !named_ && spent_ > 0 && begin - written_ < 20 * spent_) return;
  FusedModel copy = model;
  copy.info["run_options"] = options_;
  copy.info["run_inputs"] = inputs_;
  fs::create_directories(folder_);
  writeFused(copy, file());
  written_ = now();
  spent_ = written_ - begin;
}

/// What a process left that was killed while it wrote.
void CheckpointFolder::removeLeftovers() const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    if (entry.path().filename().string().starts_with(".chorus-tmp-")) {
      fs::remove(entry.path(), ignored);
    }
  }
}

void CheckpointFolder::finish() {
  if (named_) return;
  std::error_code ignored;
  fs::remove(file(), ignored);
  removeLeftovers();
  fs::remove(folder_, ignored);
}

}  // namespace chorus
