#include "tools/common/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace chorus {
namespace {

// Bytes that begin a character: the width of UTF-8 text without combining marks.
size_t widthOf(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

bool looksLikeNumber(const std::string& cell) {
  if (cell.empty() || cell == "-") return true;
  char* end = nullptr;
  std::strtod(cell.c_str(), &end);
  return *end == '\0' || (*end == '%' && end[1] == '\0');
}

bool drawable() {
  const char* const terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && terminal && std::strcmp(terminal, "dumb") != 0;
}

size_t terminalWidth() {
  struct winsize size = {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string format(const Table& table) {
  const size_t columns = table.header.size();
  std::vector<size_t> width(columns);
  std::vector<bool> right(columns, true);
  for (size_t c = 0; c < columns; ++c) {
    width[c] = widthOf(table.header[c]);
    for (const auto& row : table.rows) {
      width[c] = std::max(width[c], widthOf(row[c]));
      right[c] = right[c] && looksLikeNumber(row[c]);
    }
  }
  std::string text;
  const auto addLine = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const std::string blanks(width[c] - widthOf(cells[c]), ' ');
      line += (c ? "  " : "") + (right[c] ? blanks + cells[c] : cells[c] + blanks);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  addLine(table.header);
  for (const auto& row : table.rows) addLine(row);
  return text;
}

std::string numberText(double value, int digits) {
  char text[40];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

ProgressBar::ProgressBar(std::string label, size_t total, bool quiet)
    : label_(std::move(label)), total_(std::max<size_t>(total, 1)), shown_(!quiet && drawable()) {}

ProgressBar::~ProgressBar() {
  if (shown_ && drawn_at_ > 0) std::fprintf(stderr, "\r\033[K");
}

void ProgressBar::update(size_t done, const std::string& suffix) {
  if (!shown_ || seconds() - drawn_at_ < 0.1) return;
  drawn_at_ = seconds();
  constexpr size_t kCells = 24;
  const size_t filled = std::min(done, total_) * kCells / total_;
  std::string line = label_ + " [" + std::string(filled, '#') + std::string(kCells - filled, '.') +
                     "] " + std::to_string(done) + "/" + std::to_string(total_) + " " + suffix;
  std::fprintf(stderr, "\r\033[K%s", line.substr(0, terminalWidth() - 1).c_str());
  std::fflush(stderr);
}

}  // namespace chorus
