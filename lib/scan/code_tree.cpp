#include "lib/scan/code_tree.h"

namespace chorus::scan {

using namespace torch::jit;

std::string dottedName(const TreeRef& tree) {
  if (tree->kind() == TK_VAR) return Var(tree).name().name();
  if (tree->kind() != '.') return "";
  const Select select(tree);
  const std::string prefix = dottedName(select.value().tree());
  return prefix.empty() ? "" : prefix + "." + select.selector().name();
}

std::string withoutMangling(const std::string& name) {
  std::string result;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string part = name.substr(at, end - at);
    const bool mangle = part.starts_with("___torch_mangle_") &&
                        part.find_first_not_of("0123456789", 16) == std::string::npos;
    if (!mangle) result += (result.empty() ? "" : ".") + part;
    at = end + 1;
  }
  return result;
}

bool isFusedGradMode(const std::string& name) {
  return withoutMangling(name) == "__torch__.chorus.GradMode";
}

Refused refusedAt(const std::string& path, const SourceRange& range, std::string text) {
  Place place{path, "", "", ""};
  if (const auto position = range.file_line_col()) {
    const auto& [file, line, column] = *position;
    place.source = file + ":" + std::to_string(line);
    const auto start = range.source()->offset_for_line(line - range.source()->starting_line_no());
    const std::string source = range.source()->text_str().str();
    place.source_line =
        source.substr(start, std::min<size_t>({source.find('\n', start) - start, 160}));
  }
  return Refused(error(std::move(text), std::move(place)));
}

}  // namespace chorus::scan
