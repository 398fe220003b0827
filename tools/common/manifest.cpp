#include "tools/common/manifest.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "chorus/diagnostics.h"
#include "lib/support/names.h"
#include "tools/common/json_text.h"

namespace chorus {
namespace {

constexpr int kFormat = 1;

Manifest fromJson(const nlohmann::json& json, const Place& place) {
  const int format = json.at("format").get<int>();
  if (format > kFormat) {
    throw Refused(error("the manifest has format " + std::to_string(format) +
                            ", and this chorus reads up to " + std::to_string(kFormat),
                        place));
  }
  Manifest manifest;
  manifest.members = json.at("members").get<std::vector<std::string>>();
  std::multiset<std::string> grouped;
  for (const nlohmann::json& group : json.at("groups")) {
    manifest.groups.push_back(
        {group.at("file").get<std::string>(), group.at("members").get<std::vector<std::string>>()});
    requireSafeName("file name", manifest.groups.back().file, place);
    grouped.insert(manifest.groups.back().members.begin(), manifest.groups.back().members.end());
  }
  for (const std::string& name : manifest.members) requireSafeName("member name", name, place);
  const std::multiset<std::string> named(manifest.members.begin(), manifest.members.end());
  const std::set<std::string> once(named.begin(), named.end());
  if (grouped != named || once.size() != named.size() || named.empty()) {
    throw Refused(error("the manifest does not put each member into one group", place));
  }
  return manifest;
}

}  // namespace

std::string manifestText(const Manifest& manifest) {
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  for (const Manifest::Group& group : manifest.groups) {
    groups.push_back({{"file", group.file}, {"members", group.members}});
  }
  const nlohmann::ordered_json json = {
      {"format", kFormat}, {"members", manifest.members}, {"groups", groups}};
  return json.dump(2) + "\n";
}

bool isManifest(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return false;
  std::ifstream in(path, std::ios::binary);
  char first = 0;
  in >> first;
  return first == '{';
}

Manifest readManifest(const std::string& path) {
  const Place place{path, "", "", ""};
  std::ifstream in(path, std::ios::binary);
  try {
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    parseJsonText(path, text);  // for keys that are there twice
    return fromJson(nlohmann::json::parse(text), place);
  } catch (const nlohmann::json::exception& problem) {
    throw Refused(error("this is not a manifest of fused files", place).note(problem.what()));
  }
}

std::string groupFile(const std::string& manifest_path, const Manifest::Group& group) {
  return (std::filesystem::path(manifest_path).parent_path() / group.file).string();
}

std::vector<size_t> groupNumbers(const Manifest& manifest, const Manifest::Group& group) {
  std::vector<size_t> numbers;
  for (const std::string& name : group.members) {
    const auto at = std::ranges::find(manifest.members, name);
    numbers.push_back(static_cast<size_t>(at - manifest.members.begin()));
  }
  return numbers;
}

}  // namespace chorus
