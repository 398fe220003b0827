// Comma-separated text: quotes ("" inside them), CRLF, line breaks in quoted cells, a byte order
// mark.
#pragma once

#include <string>
#include <vector>

namespace chorus {

struct CsvLine {
  size_t number = 0;  ///< of its first line in the file, from 1
  std::vector<std::string> cells;
};

/// All lines but blank ones. Throws Refused (error naming `file` and line) on a quote that does not
/// end, or on text behind a closing quote.
std::vector<CsvLine> parseCsv(const std::string& file, const std::string& text);

}  // namespace chorus
