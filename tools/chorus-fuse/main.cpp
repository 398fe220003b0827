#include <fstream>
#include <iostream>

#include "lib/support/atomic_file.h"
#include "tools/chorus-fuse/fusing.h"
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
    "chorus-fuse @members.txt --plan";

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
  std::vector<Member> members = importMembers(paths, memberNames(paths), options);
  sayRemarks(members, !options.training.loss.empty());
  const Fused fused = fuseMembers(members, options);
  const nlohmann::json report = reportJson(fused, options);

  if (!options.plan) writeFused(fused.model, options.output);
  if (!options.report.empty()) {
    writeAtomically(options.report, [&](std::ostream& out) { out << report.dump(2) << "\n"; });
  }
  if (line.json) {
    std::cout << report.dump() << "\n";
    return 0;
  }
  std::cout << planText(fused.model, fused.decisions);
  if (fused.checks.checked) std::cout << "verified: " << fused.checks.summary << "\n";
  if (!options.plan) std::cout << "wrote " << options.output << "\n";
  return 0;
}

}  // namespace
}  // namespace chorus

int main(int argc, char** argv) { return chorus::runTool("chorus-fuse", argc, argv, chorus::run); }
