#include <atomic>
#include <fstream>
#include <iostream>
#include <mutex>
#include <thread>

#include "chorus/checker.h"
#include "chorus/equivalence.h"
#include "chorus/import.h"
#include "chorus/verify.h"
#include "lib/support/atomic_file.h"
#include "tools/chorus-fuse/options.h"
#include "tools/chorus-fuse/plan.h"
#include "tools/chorus-fuse/replicate.h"
#include "tools/common/members.h"
#include "tools/common/report.h"
#include "tools/common/run_tool.h"
#include "tools/common/terminal.h"

namespace chorus {
namespace {

constexpr const char* kExamples =
    "chorus-fuse a.pt b.pt c.pt -o fused.pt --loss cross_entropy --optimizer adam --lr "
    "1e-3,3e-4,1e-4\n"
    "chorus-fuse net.pt --replicate 8 --init reset --seeds 1,2,3,4,5,6,7,8 -o fused.pt\n"
    "chorus-fuse @members.txt --plan";

ImportOptions importOptions(const FuseOptions& options) {
  ImportOptions import;
  for (const std::string& text : options.inputs) import.inputs.push_back(parseInputSpec(text));
  import.mode = options.mode == "follow" ? ModePolicy::Follow : ModePolicy::AsTraced;
  return import;
}

/// Two at a time: unpickling is half of the work.
std::vector<Member> importAll(const std::vector<std::string>& paths, const FuseOptions& options) {
  const ImportOptions import = importOptions(options);
  const std::vector<std::string> names = memberNames(paths);
  std::vector<Member> members(paths.size());
  std::vector<std::exception_ptr> failures(paths.size());
  std::atomic<size_t> next{0}, done{0};
  std::atomic<bool> failed{false};
  ProgressBar bar("reading", paths.size());
  std::mutex drawing;
  const auto work = [&] {
    for (size_t i = next++; i < paths.size() && !failed; i = next++) {
      try {
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

nlohmann::json reportJson(const FusedModel& model, const std::vector<Decision>& decisions,
                          const FuseOptions& options, const VerifyReport& verified) {
  nlohmann::json report = planJson(model, decisions);
  report["certificate"] = model.info["certificate"];
  report["disabled"] = options.disabled;
  report["verified"] = {{"checked", verified.checked},
                        {"summary", verified.summary},
                        {"unchecked", verified.unchecked},
                        {"worst_relative_difference", verified.worst}};
  if (!options.output.empty() && !options.plan) report["output"] = options.output;
  return report;
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

FusedModel fuse(std::vector<Member>& members, const FuseOptions& options) {
  const Certificate certificate = prove(members);
  const std::string wrong = checkCertificate(certificate, members);
  if (!wrong.empty()) throw Refused(internalError("the certificate does not hold: " + wrong));
  alignSlots(members, certificate);
  FusedModel model = stackMembers(members);
  model.info["certificate"] = toJson(certificate);
  TrainingOptions training = options.training;
  readTable(training, {}, model.member_names);
  model.loss = lossSpec(training, model.k());
  model.optimizer = optimizerSpec(training, model.member_names);
  if (model.optimizer && !model.loss) throw Refused(usage("--optimizer without --loss"));
  resetState(model);
  return model;
}

VerifyReport verified(const FusedModel& model, const std::vector<Member>& members,
                      const FuseOptions& options) {
  if (options.no_verify) {
    VerifyReport skipped;
    skipped.unchecked = "switched off by --no-verify";
    return skipped;
  }
  VerifyReport report = verify(model, members, {options.verify_steps, options.rtol, options.atol});
  if (!report.unchecked.empty()) say(remark("unchecked: " + report.unchecked));
  return report;
}

int run(const std::vector<std::string>& arguments) {
  CommandLine line(
      "chorus-fuse",
      "Proves that the members are the same network and fuses their training into one graph.",
      kExamples);
  FuseOptions options;
  addFuseOptions(line, options);
  if (!line.parse(arguments)) return 0;
  checkFuseOptions(options);
  const std::vector<std::string> paths = expandLists(options.members);
  if (!options.plan) {
    refuseOverwriting(options.output, paths);
    requireWritable(options.output);
  }
  if (!options.report.empty()) {
    std::vector<std::string> others = paths;
    if (!options.plan) others.push_back(options.output);
    if (options.report == options.output)
      throw Refused(usage("--report and --output name the same file"));
    refuseOverwriting(options.report, others);
    requireWritable(options.report);
  }
  std::vector<Member> members = importAll(paths, options);
  if (options.replicate > 0) members = replicate(members.at(0), options);
  sayRemarks(members, !options.training.loss.empty());

  FusedModel model = fuse(members, options);
  std::vector<Decision> decisions;
  BuildOptions build;
  build.disabled = {options.disabled.begin(), options.disabled.end()};
  build.decisions = &decisions;
  buildModule(model, build);  // says what it cannot fuse before anything is written
  const VerifyReport checks = verified(model, members, options);
  const nlohmann::json report = reportJson(model, decisions, options, checks);

  if (!options.plan) writeFused(model, options.output);
  if (!options.report.empty()) {
    writeAtomically(options.report, [&](std::ostream& out) { out << report.dump(2) << "\n"; });
  }
  if (line.json) {
    std::cout << report.dump() << "\n";
    return 0;
  }
  std::cout << planText(model, decisions);
  if (checks.checked) std::cout << "verified: " << checks.summary << "\n";
  if (!options.plan) std::cout << "wrote " << options.output << "\n";
  return 0;
}

}  // namespace
}  // namespace chorus

int main(int argc, char** argv) { return chorus::runTool("chorus-fuse", argc, argv, chorus::run); }
