#include "tools/chorus-run/model_file.h"

#include <set>

#include "chorus/import.h"
#include "lib/export/alone.h"
#include "lib/support/atomic_file.h"
#include "tools/chorus-run/torch_state.h"
#include "tools/common/parameter_groups.h"
#include "tools/common/values.h"

namespace chorus {
namespace {

FusedModel readPlain(const RunOptions& options, Diagnostics& diagnostics) {
  ImportOptions import;
  for (const std::string& spec : options.input_specs) import.inputs.push_back(parseInputSpec(spec));
  if (options.mode == "as-traced") import.mode = ModePolicy::AsTraced;
  const Member member = importTorchScript(options.model(), import);
  for (const Message& message : member.remarks) diagnostics.add(message);
  FusedModel model = stackMembers({member});
  const MemberRecord record = readMemberRecord(options.model());
  if (!record.optimizer || !options.trains()) return model;
  // The state only: an optimizer that is named on the command line may be another one.
  if (options.keep_optimizer || options.training.optimizer.empty()) {
    model.optimizer = record.optimizer;
    model.state = record.state;
  }
  model.step.fill_(record.step);
  return model;
}

void applyLoss(const RunOptions& options, FusedModel& model, Diagnostics& diagnostics) {
  const auto given = lossSpec(options.training, model.k());
  if (given && model.loss && given->name != model.loss->name) {
    throw Refused(usage("the file was fused with the loss '" + model.loss->name + "', not '" +
                        given->name + "'"));
  }
  for (const auto& [name, tensor] : given ? given->tensors : std::map<std::string, at::Tensor>()) {
    if (!options.chosen || name == "file" || tensor.dim() < 2) continue;
    throw Refused(unsupported("--loss-arg " + name + " of an array per member with a manifest")
                      .helpWith("run the files that the manifest lists one by one"));
  }
  const bool scripted = given && given->tensors.contains("file");
  const bool has_arguments = given && !options.training.loss_arguments.empty();
  if (scripted && model.loss &&
      !at::equal(given->tensors.at("file"), model.loss->tensors.at("file"))) {
    throw Refused(
        usage("the file was fused with another loss than '" + options.training.loss + "'"));
  }
  if (model.loss && has_arguments) {
    diagnostics.add(
        remark("--loss-arg replaces the arguments of the file's loss '" + model.loss->name + "'",
               Place{options.model()}));
  }
  if (given && (!model.loss || has_arguments)) {
    LossSpec loss = *given;
    if (scripted && model.loss && model.loss->arguments.contains("target"))
      loss.arguments.emplace("target", model.loss->arguments.at("target"));
    model.loss = loss;
  }
  checkTarget(options.training, model);
  if (!model.loss && options.predict.empty()) {
    throw Refused(usage("'" + options.model() + "' has no loss")
                      .helpWith("--loss names one, e.g. --loss mse"));
  }
}

void applyOptimizer(const RunOptions& options, FusedModel& model,
                    const std::vector<TorchOptimizer>& saved, Diagnostics& diagnostics) {
  const std::optional<OptimizerSpec> before =
      saved.empty() ? model.optimizer : std::optional(specOf(saved));
  const OptimizerSpec* own = before ? &*before : nullptr;
  if (own && !options.training.optimizer.empty() && options.training.optimizer != own->name) {
    throw Refused(usage("the file was fused with the optimizer '" + own->name + "', not '" +
                        options.training.optimizer + "'"));
  }
  const auto spec = optimizerSpec(options.training, model.member_names, own);
  if (!spec) {
    throw Refused(usage("'" + options.model() + "' has no optimizer")
                      .helpWith("--optimizer names one, e.g. --optimizer adam --lr 1e-3"));
  }
  if (own) {
    for (const std::string& name : changedHyperparameters(*own, *spec)) {
      diagnostics.add(remark("--" + name + " replaces the value in the file",
                             Place{saved.empty() ? options.model() : saved.front().path}));
    }
  }
  model.optimizer = spec;
  if (own) model.optimizer->groups = own->groups;
  applyParameterGroups(options.training, model);
}

/// The state has to be the one that the optimizer needs.
void checkKept(const RunOptions& options, const FusedModel& model) {
  FusedModel fresh = model;
  resetState(fresh);
  for (const auto& [name, tensor] : fresh.state) {
    const auto found = model.state.find(name);
    const bool fits = found != model.state.end() && found->second.sizes() == tensor.sizes() &&
                      found->second.scalar_type() == tensor.scalar_type();
    if (fits) continue;
    throw Refused(error(
        "--keep-optimizer: the file has no state '" + name + "' of '" + model.optimizer->name + "'",
        Place{options.model()}));
  }
}

/// A file of a run with --ema holds the averages as its parameters: the trained ones come back, and
/// the averages go on.
void continueAverages(FusedModel& model) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> extra;
  for (const auto& [name, tensor] : model.extra) {
    if (name == "swa.count") extra[name] = tensor;
    if (name.rfind("raw.", 0) != 0) continue;
    const at::Tensor p = model.tensors.at(std::stoul(name.substr(4))).detach();
    extra["ema." + name.substr(4)] = p.clone();
    p.copy_(tensor);
  }
  model.extra = std::move(extra);
}

/// Training a file again starts afresh unless it is told otherwise.
void resetOptimizer(const RunOptions& options, FusedModel& model, Diagnostics& diagnostics) {
  const bool trained = model.step.any().item<bool>();
  if (options.keep_optimizer && !trained) {
    diagnostics.add(
        remark("--keep-optimizer: the file holds no optimizer state", Place{options.model()}));
  }
  if (!trained) return;
  if (options.keep_optimizer) {
    checkKept(options, model);
    continueAverages(model);
    return;
  }
  model.extra.clear();
  model.state.clear();
  model.step.zero_();
  diagnostics.add(remark("the file was trained before; the optimizer's state starts afresh",
                         Place{options.model()})
                      .helpWith("--keep-optimizer goes on with it"));
}

void applySeeds(const RunOptions& options, FusedModel& model, Diagnostics& diagnostics) {
  if (!options.member_seeds.empty()) {
    model.member_seeds = oneOrKSeeds("--member-seed", options.member_seeds, model.k());
  }
  const std::set<uint64_t> distinct(model.member_seeds.begin(), model.member_seeds.end());
  if (distinct.size() < model.k()) {
    diagnostics.add(remark("members with equal member seeds draw equal masks and orders")
                        .helpWith("--member-seed gives each its own"));
  }
}

}  // namespace

ModelFile readModel(const RunOptions& options, Diagnostics& diagnostics) {
  ModelFile file;
  file.plain = !isFusedFile(options.model());
  if (file.plain) {
    file.model = readPlain(options, diagnostics);
    return file;
  }
  if (!options.input_specs.empty()) {
    throw Refused(usage("--input is for plain members; '" + options.model() +
                        "' is a fused file and has its shapes"));
  }
  file.model = readFused(options.model());
  return file;
}

void applyOptions(RunOptions& options, FusedModel& model, Diagnostics& diagnostics) {
  readTable(options.training,
            {"epochs", "batch-size", "clip-norm", "clip-value", "lr-schedule", "patience",
             "min-delta", "ema", "swa"},
            options.chosen ? options.chosen->names : model.member_names);
  if (options.chosen && options.training.table) {
    for (auto& [name, cells] : options.training.table->columns) cells = options.ofChosen(cells);
    options.training.table->places = options.ofChosen(options.training.table->places);
  }
  applySeeds(options, model, diagnostics);
  applyLoss(options, model, diagnostics);
  if (!options.trains()) return;
  const std::vector<TorchOptimizer> saved = readTorchOptimizers(options, model);
  applyOptimizer(options, model, saved, diagnostics);
  if (saved.empty()) return resetOptimizer(options, model, diagnostics);
  model.extra.clear();
  resetState(model);
  for (size_t k = 0; k < model.k(); ++k) {
    if (model.partial.empty()) {
      takeTorchState(model, k, saved[k]);
      continue;
    }
    FusedModel alone = memberAlone(model, k);
    takeTorchState(alone, 0, saved[k]);
    putMember(model, alone, k);
  }
}

void resume(FusedModel checkpoint, FusedModel& model) {
  if (checkpoint.member_names != model.member_names ||
      checkpoint.tensors.size() != model.tensors.size()) {
    throw Refused(error("the checkpoint is of another model"));
  }
  model.tensors = std::move(checkpoint.tensors);
  model.state = std::move(checkpoint.state);
  model.step = std::move(checkpoint.step);
  model.extra = std::move(checkpoint.extra);
  model.info["run"] = checkpoint.info.at("run");
}

void writeModel(const ModelFile& file, const std::string& path) {
  if (!file.plain) return writeFused(file.model, path);
  torch::jit::Module module = memberModule(file.model, 0);
  const auto record = memberRecord(file.model, 0);
  const torch::jit::ExtraFilesMap extra(record.begin(), record.end());
  writeAtomically(path, [&](std::ostream& out) { module.save(out, extra); });
}

}  // namespace chorus
