#include "tools/common/csv.h"

#include "chorus/diagnostics.h"

namespace chorus {
namespace {

[[noreturn]] void refuse(const std::string& file, size_t line, const std::string& what) {
  Place place;
  place.file = file;
  throw Refused(error("line " + std::to_string(line) + ": " + what, place));
}

struct Reader {
  const std::string& file;
  const std::string& text;
  size_t at = 0;
  size_t line = 1;

  bool done() const { return at >= text.size(); }
  bool atBreak() const {
    return done() || text[at] == '\n' ||
           (text[at] == '\r' && (at + 1 == text.size() || text[at + 1] == '\n'));
  }
  void skipBreak() {
    if (!done() && text[at] == '\r') ++at;
    if (!done() && text[at] == '\n') ++at;
    ++line;
  }

  std::string quoted() {
    const size_t begun = line;
    std::string cell;
    for (++at; !done(); ++at) {
      if (text[at] == '"') {
        if (at + 1 < text.size() && text[at + 1] == '"') {
          ++at;
        } else {
          ++at;
          if (!atBreak() && text[at] != ',') refuse(file, line, "text behind a closing quote");
          return cell;
        }
      }
      if (text[at] == '\n') ++line;
      cell += text[at];
    }
    refuse(file, begun, "a quote that does not end");
  }

  std::string plain() {
    std::string cell;
    while (!atBreak() && text[at] != ',') cell += text[at++];
    return cell;
  }
};

}  // namespace

std::vector<CsvLine> parseCsv(const std::string& file, const std::string& text) {
  Reader reader{file, text};
  if (text.starts_with("\xEF\xBB\xBF")) reader.at = 3;
  std::vector<CsvLine> lines;
  while (!reader.done()) {
    CsvLine line{reader.line, {}};
    while (true) {
      const bool quote = !reader.done() && text[reader.at] == '"';
      line.cells.push_back(quote ? reader.quoted() : reader.plain());
      if (reader.atBreak()) break;
      ++reader.at;
    }
    reader.skipBreak();
    const bool blank =
        line.cells.size() == 1 && line.cells.front().find_first_not_of(" \t") == std::string::npos;
    if (!blank) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace chorus
