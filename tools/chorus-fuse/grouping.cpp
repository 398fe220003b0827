#include "tools/chorus-fuse/grouping.h"

#include <filesystem>
#include <fstream>

#include "chorus/equivalence.h"
#include "lib/support/atomic_file.h"
#include "tools/chorus-fuse/plan.h"
#include "tools/common/manifest.h"
#include "tools/common/members.h"

namespace chorus {
namespace {

std::string stemOf(const std::string& output) {
  return (std::filesystem::path(output).parent_path() / std::filesystem::path(output).stem())
      .string();
}

std::string listOf(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void write(const std::vector<Fused>& groups, const Manifest& manifest,
           const std::vector<std::string>& paths, const std::string& manifest_path) {
  PendingFiles files;
  for (size_t g = 0; g < groups.size(); ++g) {
    std::ofstream out(files.stage(paths[g]), std::ios::binary | std::ios::trunc);
    writeFused(groups[g].model, out);
    out.close();
    if (!out) throw Refused(error("cannot write: is the disk full?", Place{paths[g], "", "", ""}));
  }
  std::ofstream out(files.stage(manifest_path), std::ios::binary | std::ios::trunc);
  out << manifestText(manifest);
  out.close();
  if (!out) throw Refused(error("cannot write the manifest", Place{manifest_path, "", "", ""}));
  files.commit();
}

}  // namespace

std::string manifestPath(const std::string& output) { return stemOf(output) + ".json"; }

std::vector<std::string> groupPaths(const std::string& output, size_t groups) {
  std::vector<std::string> paths;
  for (size_t g = 0; g < groups; ++g) {
    paths.push_back(stemOf(output) + "." + std::to_string(g) + ".pt");
  }
  return paths;
}

nlohmann::json fuseGroups(std::vector<Member>& members, const FuseOptions& options,
                          const std::vector<std::string>& inputs, std::string& text) {
  const std::vector<ProvedGroup> proved = proveGroupsUnifying(members, options.mixed_momentum);
  const std::vector<std::string> paths = groupPaths(options.output, proved.size());
  if (!options.plan) {
    for (const std::string& path : paths) refuseOverwriting(path, inputs);
    refuseOverwriting(manifestPath(options.output), inputs);
  }
  std::vector<std::string> names;
  for (const Member& member : members) names.push_back(member.name);
  const Training training = trainingOf(options, names);
  std::vector<Fused> groups;
  Manifest manifest;
  manifest.members = names;
  nlohmann::json report = {{"members", names}, {"groups", nlohmann::json::array()}};
  for (size_t g = 0; g < proved.size(); ++g) {
    std::vector<Member> mine;
    for (const size_t k : proved[g].members) mine.push_back(std::move(members[k]));
    groups.push_back(fuseProved(mine, proved[g].certificate, training, proved[g].members, options));
    const Fused& fused = groups.back();
    const std::string file = std::filesystem::path(paths[g]).filename().string();
    manifest.groups.push_back({file, fused.model.member_names});
    FuseOptions own = options;
    own.output = options.plan ? "" : paths[g];
    report["groups"].push_back(reportJson(fused, own));
    text += "group " + std::to_string(g) + ": " + listOf(fused.model.member_names) + "\n" +
            planText(fused.model, fused.decisions, fused.step);
    if (fused.checks.checked) text += "verified: " + fused.checks.summary + "\n";
    if (!options.plan) text += "wrote " + paths[g] + "\n";
  }
  if (options.plan) return report;
  write(groups, manifest, paths, manifestPath(options.output));
  report["manifest"] = manifestPath(options.output);
  text += "wrote " + manifestPath(options.output) + "\n";
  return report;
}

}  // namespace chorus
