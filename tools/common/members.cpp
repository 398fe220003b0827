#include "tools/common/members.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "chorus/diagnostics.h"
#include "lib/support/atomic_file.h"
#include "lib/support/names.h"
#include "tools/common/values.h"

namespace chorus {
namespace {

namespace fs = std::filesystem;

Place placeOfFile(const std::string& file) {
  Place place;
  place.file = file;
  return place;
}

std::vector<std::string> readList(const std::string& file) {
  std::error_code ignored;
  std::ifstream in(file, std::ios::binary);
  if (!in || fs::is_directory(file, ignored)) {
    throw Refused(error("cannot read the list of members", placeOfFile(file)));
  }
  std::vector<std::string> paths;
  std::string line;
  for (bool first = true; std::getline(in, line); first = false) {
    if (first && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    line = trimmed(line);
    if (line.empty() || line.front() == '#') continue;
    paths.push_back((fs::path(file).parent_path() / line).string());
  }
  if (paths.empty()) throw Refused(error("the list names no member", placeOfFile(file)));
  return paths;
}

}  // namespace

std::vector<std::string> expandLists(const std::vector<std::string>& arguments) {
  std::vector<std::string> paths;
  for (const std::string& argument : arguments) {
    if (!argument.starts_with("@")) {
      paths.push_back(argument);
      continue;
    }
    const std::vector<std::string> listed = readList(argument.substr(1));
    paths.insert(paths.end(), listed.begin(), listed.end());
  }
  return paths;
}

std::vector<std::string> memberNames(const std::vector<std::string>& paths) {
  std::vector<std::string> names;
  std::map<std::string, size_t> uses;
  for (const std::string& path : paths) {
    names.push_back(fs::path(path).stem().string());
    requireSafeName("member name", names.back(), placeOfFile(path));
    ++uses[names.back()];
  }
  std::set<std::string> taken;
  for (const auto& [name, count] : uses) {
    if (count == 1) taken.insert(name);
  }
  std::map<std::string, size_t> next;
  for (std::string& name : names) {
    if (uses[name] == 1) continue;
    // "a.0" may be the name of another file: take the next free number.
    std::string numbered;
    do {
      numbered = name + "." + std::to_string(next[name]++);
    } while (!taken.insert(numbered).second);
    name = numbered;
  }
  return names;
}

void refuseOverwriting(const std::string& output, const std::vector<std::string>& inputs) {
  struct stat target;
  if (::stat(output.c_str(), &target) != 0) return;
  for (const std::string& input : inputs) {
    struct stat source;
    if (::stat(input.c_str(), &source) != 0) continue;
    if (source.st_dev == target.st_dev && source.st_ino == target.st_ino) {
      const std::string same = input == output ? "" : " (it is the same file as '" + input + "')";
      throw Refused(usage("the output '" + output + "' is one of the inputs" + same));
    }
  }
}

void requireWritable(const std::string& output) { PendingFiles().stage(output); }

}  // namespace chorus
