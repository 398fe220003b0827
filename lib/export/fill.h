#pragma once

#include <map>
#include <string>

namespace chorus {

/// `text` with each $name replaced by its value. No name may be the beginning of another.
inline std::string fill(std::string text, const std::map<std::string, std::string>& values) {
  for (const auto& [name, value] : values) {
    const std::string key = "$" + name;
    for (size_t at = 0; (at = text.find(key, at)) != std::string::npos; at += value.size()) {
      text.replace(at, key.size(), value);
    }
  }
  return text;
}

}  // namespace chorus
