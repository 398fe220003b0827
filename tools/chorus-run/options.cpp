#include "tools/chorus-run/options.h"

#include "chorus/schedule.h"
#include "tools/common/members.h"
#include "tools/common/run_tool.h"
#include "tools/common/values.h"

namespace chorus {
namespace {

constexpr const char* kExamples =
    "chorus-run fused.pt --data train.npz --val val.npz --epochs 20 --batch-size 64 -o trained.pt\n"
    "chorus-run a.pt --data train.npz --loss mse --optimizer adam --lr 1e-3 --epochs 5 -o "
    "a_trained.pt\n"
    "chorus-run trained.pt --data test.npz --evaluate\n"
    "chorus-run trained.pt --data test.npz --predict outputs.npz";

/// Options of the contract that a later version brings; all take a value but the flags.
const std::vector<std::string> kLaterOptions = {
    "--prune", "--max-members", "--streams", "--policy", "--report", "--tune", "--example"};
const std::vector<std::string> kLaterFlags = {};

void addWhat(CLI::App& app, RunOptions& o) {
  const std::string group = "What to do";
  app.add_option("MODEL", o.models, "a fused file or a plain member")->required();
  app.add_option("-o,--output", o.output, "trained file, in the format of MODEL")->group(group);
  app.add_flag("--evaluate", o.evaluate, "score each member instead of training it")->group(group);
  app.add_option("--predict", o.predict, "write the outputs to this .npz instead of training")
      ->group(group);
  app.add_flag("--unfused", o.unfused, "train the members of a fused file one after another")
      ->group(group);
  app.add_flag("--keep-optimizer", o.keep_optimizer, "go on with the optimizer state of the file")
      ->group(group);
  app.add_option("--optimizer-state", o.optimizer_state,
                 "go on with a state dict of torch.optim that torch.save wrote; one file or K")
      ->group(group);
}

void addData(CLI::App& app, RunOptions& o) {
  const std::string group = "Data";
  app.add_option(
         "--data", o.data,
         "arrays to train on, score or predict: .npz, .npy, CSV, IDX; several files between commas")
      ->required()
      ->group(group);
  app.add_option("--val", o.validation, "arrays to score after each epoch")->group(group);
  app.add_option("--val-fraction", o.validation_fraction,
                 "share of --data that is scored and not trained on")
      ->group(group);
  app.add_option("--keys", o.keys,
                 "arrays by name: the model's inputs in order, then the target (default x,y)")
      ->group(group);
  app.add_option("--inputs", o.inputs,
                 "shared: [N,...] for all members; stacked: [K,N,...]; one word or one per input")
      ->capture_default_str()
      ->group(group);
  app.add_option("--targets", o.targets, "the same for the target (default: what the inputs are)")
      ->group(group);
  app.add_option("--folds", o.folds,
                 "cross-validation: member i is scored on part i of K and trains on the others")
      ->transform(integerFrom(2, 1'000'000))
      ->group(group);
  app.add_flag("--bootstrap", o.bootstrap,
               "each member trains on N of the N rows, drawn with replacement")
      ->group(group);
  app.add_option("--subset", o.subset, "JSON: a list of K lists of row numbers to train on")
      ->group(group);
  app.add_option("--sample-weight", o.sample_weight,
                 "weights of the rows: an array of --data or a file, [N] or [K,N]")
      ->group(group);
  app.add_option("--input", o.input_specs,
                 "shape of an input of a plain member, e.g. f32[N,3,32,32] (repeatable)")
      ->group(group);
  app.add_option("--mode", o.mode, "of a plain member: what a trace's train and eval flags mean")
      ->check(oneOf({"follow", "as-traced"}))
      ->capture_default_str()
      ->group(group);
}

std::string scheduleNames() {
  std::string names;
  for (const ScheduleDefinition& definition : allSchedules()) {
    names += (names.empty() ? "" : ", ") + definition.name;
  }
  return names;
}

void addRun(CLI::App& app, RunOptions& o) {
  const std::string group = "Training";
  app.add_option("--epochs", o.epochs,
                 "one value or K (default 1); a member whose epochs are over rests")
      ->group(group);
  app.add_option("--batch-size", o.batch_size, "rows of a batch; one value or K (default 32)")
      ->group(group);
  app.add_flag("--drop-last", o.drop_last, "leave out a last batch that is smaller")->group(group);
  app.add_option("--shuffle", o.shuffle,
                 "order of the rows: one for all members, each its own, or the file's")
      ->check(oneOf({"shared", "member", "none"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--seed", o.seed, "of the run")
      ->transform(seedNumber())
      ->capture_default_str()
      ->group(group);
  app.add_option("--member-seed", o.member_seeds, "of each member's own draws; one value or K")
      ->group(group);
  app.add_option("--clip-norm", o.clip_norm, "largest norm of a member's gradient; one value or K")
      ->group(group);
  app.add_option("--clip-value", o.clip_value,
                 "largest size of a gradient's element; one value or K")
      ->group(group);
  app.add_option("--accumulate", o.accumulate, "batches per update; their mean counts")
      ->transform(integerFrom(1))
      ->capture_default_str()
      ->group(group);
  app.add_option("--lr-schedule", o.schedule,
                 "NAME:ARG=V,... per epoch, NAME@step:... per step; K between ';' (" +
                     scheduleNames() + "; warmup=N in front of any)")
      ->group(group);
  app.add_option("--patience", o.patience,
                 "a member stops after this many epochs without a better value; one or K")
      ->group(group);
  app.add_option("--min-delta", o.min_delta,
                 "smaller gains do not count, nor for --restore best; one or K")
      ->group(group);
  app.add_option("--monitor", o.monitor,
                 "val_loss (default), train_loss, or val_ or train_ and a metric")
      ->group(group);
  app.add_option("--restore", o.restore,
                 "the state that a member ends with: best (default with --patience) or last")
      ->check(oneOf({"best", "last"}))
      ->group(group);
  app.add_option(
         "--ema", o.ema,
         "decay of a moving average of the parameters, which is scored and written; one or K")
      ->group(group);
  app.add_option("--swa", o.swa,
                 "epoch from which on the parameters are averaged, which are written; one or K")
      ->group(group);
  app.add_flag("--recalibrate", o.recalibrate,
               "at the end, measure the statistics of batch norms anew (--swa does)")
      ->group(group);
  app.add_option("--amp", o.amp, "mixed precision: bf16 or fp16")
      ->check(oneOf({"bf16", "fp16"}))
      ->group(group);
  app.add_option(
         "--on-nan", o.on_nan,
         "a member whose loss or gradient is not finite: continue as PyTorch does, freeze it, skip "
         "the update, or stop the run")
      ->check(oneOf({"continue", "freeze", "skip", "stop"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--metric", o.metrics,
                 "comma-separated: accuracy, topN, f1, auroc, mse, mae, r2, perplexity, or a "
                 "scripted METRIC.pt")
      ->group(group);
  app.add_option("--checkpoint", o.checkpoint,
                 "folder of the run's checkpoint (default TRAINED.ckpt, removed on success)")
      ->group(group);
  app.add_option("--checkpoint-every", o.checkpoint_every, "steps, besides the ends of epochs")
      ->transform(integerFrom(1))
      ->group(group);
  app.add_option("--resume", o.resume, "go on with the run whose checkpoint is in this folder")
      ->group(group);
  app.add_option("--device", o.device, "cpu or cuda[:i]")->capture_default_str()->group(group);
  app.add_option("--threads", o.threads, "threads of an operator (default: LibTorch's)")
      ->transform(integerFrom(1, 4096))
      ->group(group);
}

void addReport(CLI::App& app, RunOptions& o) {
  const std::string group = "Output";
  app.add_option("--log", o.log, "a JSON line per epoch goes to this file")->group(group);
  app.add_flag("--quiet", o.quiet, "no progress, no table")->group(group);
}

/// Empty group: not in --help.
void addLater(CLI::App& app, std::vector<std::string>& values) {
  values.resize(kLaterOptions.size());
  for (size_t i = 0; i < kLaterOptions.size(); ++i)
    app.add_option(kLaterOptions[i], values[i])->group("");
  for (size_t i = 0; i < kLaterFlags.size(); ++i) app.add_flag(kLaterFlags[i])->group("");
}

void refuseLater(const CLI::App& app) {
  for (const auto& names : {kLaterOptions, kLaterFlags}) {
    for (const std::string& name : names) {
      if (app.get_option(name)->count()) throw Refused(unsupported("option '" + name + "'"));
    }
  }
}

void checkDevice(const std::string& device) {
  if (device == "cpu") return;
  if (device != "cuda" && !device.starts_with("cuda:")) {
    throw Refused(usage("--device is cpu or cuda[:i], not '" + device + "'"));
  }
  if (!at::hasCUDA()) throw Refused(error("--device " + device + ": there is no CUDA device"));
  throw Refused(unsupported("--device " + device));
}

/// At most one thing decides what a member trains on.
void checkRows(const RunOptions& o) {
  const std::string val = !o.validation.empty()   ? "--val"
                          : o.validation_fraction ? "--val-fraction"
                                                  : "";
  if (o.folds > 0 && !val.empty()) {
    throw Refused(usage("--folds and " + val + " exclude each other"));
  }
  std::vector<std::string> given;
  if (o.folds > 0) given.push_back("--folds");
  if (o.bootstrap) given.push_back("--bootstrap");
  if (!o.subset.empty()) given.push_back("--subset");
  if (given.size() > 1) throw Refused(usage(given[0] + " and " + given[1] + " exclude each other"));
  if (!given.empty() && !o.trains()) throw Refused(usage(given[0] + " is for training"));
}

void checkCheckpoint(const RunOptions& o) {
  const bool given = !o.checkpoint.empty() || o.checkpoint_every > 0 || !o.resume.empty();
  if (given && !o.trains()) throw Refused(usage("checkpoints are for training"));
  if (!o.resume.empty() && !o.checkpoint.empty() && o.resume != o.checkpoint) {
    throw Refused(usage("--resume goes on in its own folder; --checkpoint names another"));
  }
}

void checkCombination(const RunOptions& o) {
  if (o.models.size() > 1) {
    throw Refused(
        unsupported("several models in one run: '" + o.models[0] + "' and '" + o.models[1] + "'")
            .helpWith("chorus-fuse makes one file of members that compute the same function"));
  }
  if (o.evaluate && !o.predict.empty())
    throw Refused(usage("--evaluate and --predict exclude each other"));
  if (o.trains() && o.output.empty() && o.checkpoint.empty()) {
    throw Refused(usage("training needs -o TRAINED.pt; --evaluate and --predict do not train"));
  }
  checkRows(o);
  checkCheckpoint(o);
  if (!o.optimizer_state.empty() && (o.keep_optimizer || !o.trains())) {
    throw Refused(usage(o.trains() ? "--keep-optimizer and --optimizer-state exclude each other"
                                   : "--optimizer-state is for training"));
  }
  if (!o.trains() && !o.output.empty()) {
    throw Refused(usage(std::string("-o is for training, but ") +
                        (o.evaluate ? "--evaluate" : "--predict") + " does not train"));
  }
  if (!o.validation.empty() && o.validation_fraction) {
    throw Refused(usage("--val and --val-fraction exclude each other"));
  }
  if (o.validation_fraction && !(*o.validation_fraction > 0 && *o.validation_fraction < 1)) {
    throw Refused(usage("--val-fraction has to be between 0 and 1"));
  }
  checkDevice(o.device);
}

void protectInputs(const RunOptions& o) {
  std::vector<std::string> inputs = {o.model(), o.data, o.validation};
  for (const std::string& files : {o.data, o.validation, o.optimizer_state}) {
    for (const std::string& file : splitText(files, ',')) inputs.push_back(file);
  }
  std::erase(inputs, "");
  for (const std::string& file : {o.training.hparams, o.training.parameter_groups, o.subset}) {
    if (!file.empty()) inputs.push_back(file);
  }
  for (const std::string& metric : splitText(o.metrics, ',')) {
    if (metric.ends_with(".pt")) inputs.push_back(metric);
  }
  for (const std::string& file : {o.output, o.predict, o.log}) {
    if (file.empty()) continue;
    refuseOverwriting(file, inputs);
    requireWritable(file);
  }
  if (!o.log.empty() && (o.log == o.output || o.log == o.predict)) {
    throw Refused(usage("--log and the result are one file: '" + o.log + "'"));
  }
}

}  // namespace

at::Tensor RunOptions::rowsOfChosen(const at::Tensor& all) const {
  if (!chosen) return all;
  const std::vector<int64_t> rows(chosen->numbers.begin(), chosen->numbers.end());
  return all.index_select(0, at::tensor(rows, at::kLong));
}

std::optional<RunOptions> parseRunOptions(const std::vector<std::string>& arguments) {
  CommandLine line(
      "chorus-run",
      "Trains, scores or predicts with the members of a fused file, or one plain member.",
      kExamples);
  RunOptions options;
  addWhat(line.app, options);
  addData(line.app, options);
  addTrainingOptions(line.app, options.training);
  addRun(line.app, options);
  addReport(line.app, options);
  std::vector<std::string> later_values;
  addLater(line.app, later_values);
  if (!line.parse(arguments)) return std::nullopt;
  options.json = line.json;
  for (const std::string& argument : arguments) {
    options.arguments += (options.arguments.empty() ? "" : " ") + quotedForShell(argument);
  }
  refuseLater(line.app);
  checkCombination(options);
  protectInputs(options);
  return options;
}

}  // namespace chorus
