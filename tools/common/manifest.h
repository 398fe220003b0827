// The list of the fused files that `chorus-fuse --group` writes. JSON:
//
//     {"format": 1, "members": ["a", "b", "c"],
//      "groups": [{"file": "fused.0.pt", "members": ["a", "c"]}, {"file": "fused.1.pt", ...}]}
//
// `members` are in the order of the command line; hyperparameters per member go by it. A file is a
// name in the manifest's own folder.
#pragma once

#include <string>
#include <vector>

namespace chorus {

struct Manifest {
  struct Group {
    std::string file;
    std::vector<std::string> members;
  };
  std::vector<std::string> members;
  std::vector<Group> groups;
};

std::string manifestText(const Manifest& manifest);

/// True where the file's first character that is no blank is '{'.
bool isManifest(const std::string& path);

/// Throws Refused (error) naming the file where it is damaged, of a newer format, names a file that
/// is no plain file name, or a member twice or not at all.
Manifest readManifest(const std::string& path);

/// Path of a group's file, beside the manifest.
std::string groupFile(const std::string& manifest_path, const Manifest::Group& group);

/// Numbers of a group's members in the order of the command line.
std::vector<size_t> groupNumbers(const Manifest& manifest, const Manifest::Group& group);

}  // namespace chorus
