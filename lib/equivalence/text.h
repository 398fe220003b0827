// Putting texts together.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace chorus::equivalence {

inline std::string cat(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text += part;
  return text;
}

}  // namespace chorus::equivalence
