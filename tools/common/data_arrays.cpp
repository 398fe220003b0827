#include "tools/common/data_arrays.h"

#include <filesystem>

#include "chorus/data.h"
#include "tools/common/values.h"

namespace chorus {

std::map<std::string, at::Tensor> readDataFiles(const std::string& option, const std::string& paths,
                                                const std::vector<std::string>& keys) {
  if (paths.find(',') == std::string::npos || std::filesystem::exists(paths)) {
    return readArrays(paths);
  }
  std::vector<NamedArray> all;
  bool single = true;
  for (const std::string& path : splitText(paths, ',')) {
    std::vector<NamedArray> arrays = loadArrays(path);
    single = single && arrays.size() == 1;
    for (NamedArray& array : arrays) all.push_back(std::move(array));
  }
  std::map<std::string, at::Tensor> by_name;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string name = single && i < keys.size() ? keys[i] : all[i].name;
    if (!by_name.emplace(name, all[i].values).second) {
      throw Refused(usage(option + ": two of the files have an array '" + name + "'"));
    }
  }
  return by_name;
}

std::vector<std::string> defaultKeys(bool with_target, const std::vector<std::string>& more) {
  std::vector<std::string> keys = {"x"};
  if (with_target) keys.emplace_back(more.empty() ? "y" : "targets");
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

}  // namespace chorus
