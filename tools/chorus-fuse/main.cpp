#include <fstream>
#include <iostream>

#include "lib/support/atomic_file.h"
#include "tools/chorus-fuse/checking.h"
#include "tools/chorus-fuse/fusing.h"
#include "tools/chorus-fuse/grouping.h"
#include "tools/chorus-fuse/options.h"
#include "tools/chorus-fuse/plan.h"
#include "tools/common/members.h"
#include "tools/common/run_tool.h"

namespace chorus {
namespace {

constexpr const char* kExamples =
    "chorus-fuse a.pt b.pt c.pt -o fused.pt --loss cross_entropy --optimizer adam --lr "
    "1e-3,3e-4,1e-4\n"
    "chorus-fuse net.pt --replicate 8 --init reset --seeds 1,2,3,4,5,6,7,8 -o fused.pt\n"
    "chorus-fuse @members.txt --plan\n"
    "chorus-fuse a.pt b.pt c.pt -o fused.pt --group\n"
    "chorus-fuse a.pt b.pt c.pt --check fused.pt";

void writeReport(const FuseOptions& options, const nlohmann::json& report) {
  if (options.report.empty()) return;
  writeAtomically(options.report, [&](std::ostream& out) { out << report.dump(2) << "\n"; });
}

/// Before any work is done.
void requireOutputs(const FuseOptions& options, const std::vector<std::string>& paths) {
  std::vector<std::string> outputs;
  if (!options.plan && options.check.empty()) {
    outputs = {options.output};
    if (options.group) outputs = {groupPaths(options.output, 1)[0], manifestPath(options.output)};
  }
  for (const std::string& output : outputs) {
    refuseOverwriting(output, paths);
    requireWritable(output);
  }
  if (options.report.empty()) return;
  for (const std::string& output : outputs) {
    if (options.report == output) throw Refused(usage("--report and --output name the same file"));
  }
  std::vector<std::string> others = paths;
  others.insert(others.end(), outputs.begin(), outputs.end());
  refuseOverwriting(options.report, others);
  requireWritable(options.report);
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
  requireOutputs(options, paths);
  if (!options.example.empty()) options.example_data = readExample(options);
  Phases phases;
  std::vector<Member> members =
      phases.time("read", [&] { return importMembers(paths, memberNames(paths), options); });
  if (!options.check.empty()) {
    const std::string found = checkFused(options.check, members);
    if (line.json) std::cout << nlohmann::json{{"holds", true}, {"summary", found}}.dump() << "\n";
    if (!line.json) std::cout << found << "\n";
    return 0;
  }
  sayRemarks(members, !options.training.loss.empty());
  if (options.group) {
    std::string text;
    const nlohmann::json report = fuseGroups(members, options, paths, text);
    writeReport(options, report);
    std::cout << (line.json ? report.dump() + "\n" : text);
    return 0;
  }
  const Fused fused = fuseMembers(members, options);
  nlohmann::json report = reportJson(fused, options);

  phases.add(fused.phases);
  if (!options.plan) phases.time("write", [&] { writeFused(fused.model, options.output); });
  report["seconds"] = phases.json();
  writeReport(options, report);
  if (line.json) {
    std::cout << report.dump() << "\n";
    return 0;
  }
  std::cout << planText(fused.model, fused.decisions, fused.step);
  if (fused.checks.checked) std::cout << "verified: " << fused.checks.summary << "\n";
  if (!options.plan) std::cout << "wrote " << options.output << "\n";
  return 0;
}

}  // namespace
}  // namespace chorus

int main(int argc, char** argv) { return chorus::runTool("chorus-fuse", argc, argv, chorus::run); }
