#include "tools/chorus-fuse/fusing.h"

#include <atomic>
#include <mutex>
#include <thread>

#include "chorus/checker.h"
#include "chorus/equivalence.h"
#include "chorus/import.h"
#include "lib/export/fused_text.h"
#include "lib/export/random_nodes.h"
#include "lib/export/share.h"
#include "lib/export/varying.h"
#include "runtime/allocator.h"
#include "tools/chorus-fuse/partial_parts.h"
#include "tools/chorus-fuse/plan.h"
#include "tools/chorus-fuse/replicate.h"
#include "tools/common/parameter_groups.h"
#include "tools/common/report.h"
#include "tools/common/terminal.h"

namespace chorus {
namespace {

ImportOptions importOptions(const FuseOptions& options) {
  ImportOptions import;
  for (const std::string& text : options.inputs) import.inputs.push_back(parseInputSpec(text));
  if (options.example_data) {
    import.inputs = exampleSpecs(*options.example_data);
    import.inputs_are_data = true;
  }
  import.mode = options.mode == "follow" ? ModePolicy::Follow : ModePolicy::AsTraced;
  return import;
}

void refuseFused(const std::string& path) {
  if (!isFusedFile(path)) return;
  throw Refused(error("this is a fused file, not a member", Place{path, "", "", ""})
                    .helpWith("chorus-split writes the members of a fused file"));
}

/// Two at a time: unpickling is half of the work.
std::vector<Member> importAll(const std::vector<std::string>& paths,
                              const std::vector<std::string>& names, const FuseOptions& options) {
  const ImportOptions import = importOptions(options);
  std::vector<Member> members(paths.size());
  std::vector<std::exception_ptr> failures(paths.size());
  std::atomic<size_t> next{0}, done{0};
  std::atomic<bool> failed{false};
  ProgressBar bar("reading", paths.size());
  std::mutex drawing;
  const auto work = [&] {
    for (size_t i = next++; i < paths.size() && !failed; i = next++) {
      try {
        refuseFused(paths[i]);
        ImportOptions mine = import;
        mine.name = names[i];
        members[i] = importTorchScript(paths[i], mine);
      } catch (...) {
        failures[i] = std::current_exception();
        failed = true;
      }
      const std::scoped_lock lock(drawing);
      bar.update(++done);
    }
  };
  std::thread other(work);
  work();
  other.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return members;
}

/// Every member's slots in the order of member 0's.
void alignSlots(std::vector<Member>& members, const Certificate& certificate) {
  for (size_t k = 0; k < members.size(); ++k) {
    std::vector<TensorSlot> slots;
    for (const uint32_t slot : certificate.members[k].slots)
      slots.push_back(members[k].slots.at(slot));
    members[k].slots = std::move(slots);
  }
}

template <typename T>
std::vector<T> chosen(const std::vector<T>& values, const std::vector<size_t>& numbers) {
  std::vector<T> some;
  for (const size_t k : numbers) some.push_back(values.at(k));
  return some;
}

/// The loss of the members `numbers` of `training.k`.
LossSpec lossOf(const FusedModel& model, const Training& training,
                const std::vector<size_t>& numbers) {
  LossSpec loss = *training.loss;
  if (numbers.size() == training.k) return loss;
  for (auto& [name, values] : loss.arguments) {
    if (values.size() > 1) values = chosen(values, numbers);
  }
  FusedModel whole = model;
  whole.loss = training.loss;
  LossRequest request = lossRequest(whole);
  request.k = training.k;
  const LossCode code = findLoss(loss.name).build(request);
  for (auto& [name, tensor] : loss.tensors) {
    if (!code.constants.contains("loss_" + name)) continue;
    const std::vector<int64_t> rows(numbers.begin(), numbers.end());
    tensor = tensor.index_select(0, at::tensor(rows, at::kLong));
  }
  return loss;
}

OptimizerSpec optimizerOf(const Training& training, const std::vector<size_t>& numbers) {
  OptimizerSpec optimizer = *training.optimizer;
  for (auto& [name, values] : optimizer.values) values = chosen(values, numbers);
  for (ParameterGroup& group : optimizer.groups) {
    for (auto& [name, values] : group.values) values = chosen(values, numbers);
  }
  return optimizer;
}

/// Thousands of members would otherwise be in memory twice while the optimizer's state is made.
void releaseValues(std::vector<Member>& members) {
  for (Member& member : members) {
    for (TensorSlot& slot : member.slots) slot.value = at::Tensor();
  }
  returnFreedMemory();
}

FusedModel stackProved(std::vector<Member>& members, const Certificate& certificate,
                       const Training& training, const std::vector<size_t>& numbers,
                       const FuseOptions& options, const PartialParts* partial) {
  alignSlots(members, certificate);
  FusedModel model = stackMembers(members);
  model.random_nodes = randomNodes(members, certificate);
  model.varying = varyingNumbers(certificate, members[0]);
  const std::vector<bool> shared = sharedSlots(members, options.share);
  for (size_t i = 0; i < shared.size(); ++i) {
    if (!shared[i] || !members[0].slots[i].requires_grad) continue;
    say(remark("'" + members[0].slots[i].name + "' is shared by --share, so it is not trained"));
  }
  for (const auto& [own, ours] : renamedNames(topLevelNames(members[0]))) {
    say(remark("the members have an attribute '" + own +
               "' of their own, so what the fused file adds is called '" + ours + "'"));
  }
  shareSlots(model, shared);
  if (options.no_verify) releaseValues(members);
  model.info["certificate"] = toJson(certificate);
  if (partial) takePartialParts(model, *partial);
  if (training.loss) model.loss = lossOf(model, training, numbers);
  checkTarget(training.options, model);
  if (training.optimizer) model.optimizer = optimizerOf(training, numbers);
  if (partial) checkPartialOptimizer(training.options, model);
  applyParameterGroups(training.options, model);
  resetState(model);
  return model;
}

void check(const Certificate& certificate, const std::vector<Member>& members) {
  const std::string wrong = checkCertificate(certificate, members);
  if (!wrong.empty()) throw Refused(internalError("the certificate does not hold: " + wrong));
}

std::optional<Estimate> estimated(const FusedModel& model, const FuseOptions& options) {
  if (!options.plan && options.report.empty()) return std::nullopt;
  return estimate(model,
                  options.batch_size > 0 ? options.batch_size : model.prototype.example_batch);
}

VerifyReport verified(const FusedModel& model, const std::vector<Member>& members,
                      const FuseOptions& options) {
  if (options.no_verify) {
    VerifyReport skipped;
    skipped.unchecked = "switched off by --no-verify";
    return skipped;
  }
  VerifyOptions verifying{options.verify_steps, options.rtol, options.atol, {}};
  if (options.example_data) verifying.example = exampleBatch(*options.example_data, model);
  VerifyReport report = verify(model, members, verifying);
  if (!report.unchecked.empty()) say(remark("unchecked: " + report.unchecked));
  return report;
}

}  // namespace

std::vector<Member> importMembers(const std::vector<std::string>& paths,
                                  const std::vector<std::string>& names,
                                  const FuseOptions& options) {
  std::vector<Member> members = importAll(paths, names, options);
  if (options.replicate > 0) members = replicate(members.at(0), options);
  return members;
}

void sayRemarks(const std::vector<Member>& members, bool trains) {
  // The same remark of many members is said once.
  std::map<std::string, std::pair<Message, size_t>> seen;
  for (const Member& member : members) {
    for (const Message& message : member.remarks) {
      if (message.severity == Severity::Warning && !trains) continue;
      auto [at, fresh] = seen.emplace(message.text, std::pair{message, 0});
      ++at->second.second;
    }
  }
  for (auto& [text, entry] : seen) {
    auto& [message, count] = entry;
    if (count > 1) message.note("the same holds for " + std::to_string(count - 1) + " more");
    say(message);
  }
}

Training trainingOf(const FuseOptions& options, const std::vector<std::string>& names,
                    const std::map<std::string, at::Tensor>& loss_tensors) {
  TrainingOptions given = options.training;
  readTable(given, {}, names);
  Training training{lossSpec(given, names.size()), {}, {}, names.size()};
  for (const auto& [name, tensor] : loss_tensors) {
    if (!training.loss) throw Refused(usage("--loss-arg '" + name + "' is given without --loss"));
    training.loss->tensors[name] = tensor;
  }
  training.optimizer = optimizerSpec(given, names);
  if (training.optimizer && !training.loss) throw Refused(usage("--optimizer without --loss"));
  training.options = std::move(given);
  return training;
}

Fused fuseProved(std::vector<Member>& members, const Certificate& certificate,
                 const Training& training, const std::vector<size_t>& numbers,
                 const FuseOptions& options, const PartialParts* partial) {
  Fused fused;
  fused.phases.time("check", [&] { check(certificate, members); });
  fused.model = fused.phases.time("stack", [&] {
    return stackProved(members, certificate, training, numbers, options, partial);
  });
  BuildOptions build;
  build.disabled = {options.disabled.begin(), options.disabled.end()};
  build.decisions = &fused.decisions;
  fused.phases.time("build", [&] { buildModule(fused.model, build); });
  const std::vector<Member>& originals = partial ? partial->originals : members;
  fused.checks =
      fused.phases.time("verify", [&] { return verified(fused.model, originals, options); });
  fused.step = fused.phases.time("estimate", [&] { return estimated(fused.model, options); });
  return fused;
}

namespace {

/// Members that differ in places: what they have in common is fused (lib/partial).
Fused fusePartly(const std::vector<Member>& members, const std::vector<ProvedGroup>& groups,
                 const Training& training, const std::vector<size_t>& numbers,
                 const FuseOptions& options) {
  Phases phases;
  Combined combined = phases.time("outline", [&] { return combineMembers(members, groups); });
  const Certificate certificate = phases.time("prove", [&] { return prove(combined.members); });
  const PartialParts parts{members, combined};
  Fused fused = fuseProved(combined.members, certificate, training, numbers, options, &parts);
  phases.add(fused.phases);
  fused.phases = phases;
  return fused;
}

}  // namespace

Fused fuseMembers(std::vector<Member>& members, const FuseOptions& options,
                  const std::map<std::string, at::Tensor>& loss_tensors) {
  Phases phases;
  std::vector<std::string> names;
  std::vector<size_t> numbers;
  for (const Member& member : members) {
    numbers.push_back(numbers.size());
    names.push_back(member.name);
  }
  std::vector<ProvedGroup> groups;
  Certificate certificate;
  phases.time("prove", [&] {
    if (options.partial) {
      groups = proveGroupsUnifying(members, options.mixed_momentum);
    } else {
      certificate = proveUnifying(members, options.mixed_momentum);
    }
  });
  if (groups.size() == 1) certificate = groups.front().certificate;
  const Training training = trainingOf(options, names, loss_tensors);
  Fused fused = groups.size() > 1 ? fusePartly(members, groups, training, numbers, options)
                                  : fuseProved(members, certificate, training, numbers, options);
  phases.add(fused.phases);
  fused.phases = phases;
  return fused;
}

nlohmann::json reportJson(const Fused& fused, const FuseOptions& options) {
  nlohmann::json report = planJson(fused.model, fused.decisions, fused.step);
  report["certificate"] = fused.model.info["certificate"];
  report["disabled"] = options.disabled;
  report["verified"] = {{"checked", fused.checks.checked},
                        {"summary", fused.checks.summary},
                        {"unchecked", fused.checks.unchecked},
                        {"worst_relative_difference", fused.checks.worst}};
  if (!options.output.empty() && !options.plan) report["output"] = options.output;
  return report;
}

}  // namespace chorus
