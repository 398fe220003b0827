// Members that differ: one fused file per group of equal ones, and a manifest.
#pragma once

#include <string>
#include <vector>

#include "tools/chorus-fuse/fusing.h"

namespace chorus {

/// The names that `--group -o fused.pt` may write: fused.json, and "fused.0.pt", ... for `groups`.
std::string manifestPath(const std::string& output);
std::vector<std::string> groupPaths(const std::string& output, size_t groups);

/// Proves, fuses and verifies each group, then writes all files or none, the manifest last. Returns
/// the report: a list of the groups' own under "groups". Writes nothing with --plan.
nlohmann::json fuseGroups(std::vector<Member>& members, const FuseOptions& options,
                          const std::vector<std::string>& inputs, std::string& text);

}  // namespace chorus
