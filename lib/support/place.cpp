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
  const size_t slash = name.rfind('/');
  place.source =
      (slash == std::string::npos ? name : name.substr(slash + 1)) + ":" + std::to_string(line);
  const auto& source = written.source();
  const size_t first = source->starting_line_no();
  // A trace keeps the place without the text.
  if (line >= first && line - first < source->num_lines()) {
    place.source_line = trimmed(source->get_line(line - first).str());
  }
  return place;
}

}  // namespace chorus
