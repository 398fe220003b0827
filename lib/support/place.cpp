// Where a node came from, in the user's own files.
#include <torch/csrc/jit/frontend/source_range.h>

#include "chorus/member.h"

namespace chorus {
namespace {

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos
             ? ""
             : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::string baseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// A trace keeps no source text but the Python stack, innermost first, a frame a line:
/// "/home/me/net.py(41): forward". The innermost frame outside of torch's own files is the user's
/// place.
bool placeFromStack(const std::string& text, Place& place) {
  size_t begin = 0;
  bool found = false;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string frame = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t open = frame.rfind('('), close = frame.rfind("): ");
    if (open == std::string::npos || close == std::string::npos || close < open) continue;
    const std::string file = frame.substr(0, open), line = frame.substr(open + 1, close - open - 1);
    if (line.empty() || line.find_first_not_of("0123456789") != std::string::npos) continue;
    const bool library = file.find("/torch/") != std::string::npos;
    if (library && found) continue;
    place.source = baseName(trimmed(file)) + ":" + line;
    found = true;
    if (!library) return true;
  }
  return found;
}

}  // namespace

Place placeOf(const Node* node, const std::string& file) {
  Place place;
  place.file = file;
  place.module_path = node->scopeName();
  const torch::jit::SourceRange range = node->sourceRange();
  const torch::jit::SourceRange written = range.findSourceRangeThatGenerated().value_or(range);
  const auto position = written.file_line_col();
  if (!position) return place;
  const auto& [name, line, column] = *position;
  if (name.empty() || line == 0) return place;
  place.source = baseName(name) + ":" + std::to_string(line);
  if (placeFromStack(written.source()->text_str().str(), place)) return place;
  const auto& source = written.source();
  const size_t first = source->starting_line_no();
  // A trace keeps the place without the text.
  if (line >= first && line - first < source->num_lines()) {
    place.source_line = trimmed(source->get_line(line - first).str());
  }
  return place;
}

}  // namespace chorus
