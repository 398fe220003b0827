#include "lib/support/names.h"

#include <algorithm>

namespace chorus {
namespace {

constexpr size_t kLongestName =
    200;  // bytes: leaves room for ".12345.pt" below the 255 of file systems

bool isControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

std::string nameProblem(const std::string& name) {
  if (name.empty()) return "is empty";
  if (name == "." || name == "..") return "is a folder";
  if (name.find('/') != std::string::npos) return "contains '/'";
  if (std::any_of(name.begin(), name.end(), isControl)) return "contains a control character";
  if (name.front() == '-') return "begins with '-'";
  if (name.size() > kLongestName) {
    return "has " + std::to_string(name.size()) + " bytes; at most " +
           std::to_string(kLongestName) + " are allowed";
  }
  return "";
}

void requireSafeName(const std::string& what, const std::string& name, const Place& place) {
  const std::string problem = nameProblem(name);
  if (problem.empty()) return;
  throw Refused(error(what + " '" + printable(name) + "' " + problem, place));
}

std::string printable(const std::string& text) {
  static const char* const digits = "0123456789abcdef";
  std::string result;
  for (const char c : text) {
    if (isControl(c)) {
      const auto byte = static_cast<unsigned char>(c);
      result += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    } else {
      if (c == '\\' || c == '\'') result += '\\';
      result += c;
    }
  }
  return result;
}

}  // namespace chorus
