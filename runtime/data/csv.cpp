#include <charconv>
#include <cmath>
#include <fstream>
#include <map>

#include "chorus/diagnostics.h"
#include "runtime/data/formats.h"

namespace chorus {
namespace {

struct Column {
  std::string name;
  std::vector<double> values;
};

std::vector<std::string> cellsOf(const std::string& line, char separator) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == separator) {
      cells.emplace_back();
    } else if (c != '"' && c != '\r') {
      cells.back() += c;
    }
  }
  for (std::string& cell : cells) {
    cell.erase(0, cell.find_first_not_of(' '));
    cell.erase(cell.find_last_not_of(' ') + 1);
  }
  return cells;
}

std::optional<double> numberFrom(const std::string& text) {
  double value = 0;
  const char* first = text.data() + (text.starts_with("+") ? 1 : 0);
  const char* last = text.data() + text.size();
  const auto [end, failure] = std::from_chars(first, last, value);
  if (failure != std::errc() || end != last) return std::nullopt;
  return value;
}

char separatorOf(const std::string& line) {
  for (const char c : {',', ';', '\t'}) {
    if (line.find(c) != std::string::npos) return c;
  }
  return ',';
}

std::vector<Column> readColumns(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::vector<Column> columns;
  char separator = ',';
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (number == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const bool first = columns.empty();
    if (first) separator = separatorOf(line);
    const std::vector<std::string> cells = cellsOf(line, separator);
    if (first) {
      bool header = false;
      for (const std::string& cell : cells) header = header || !numberFrom(cell);
      for (size_t i = 0; i < cells.size(); ++i)
        columns.push_back({header ? cells[i] : "column " + std::to_string(i + 1), {}});
      if (header) continue;
    }
    const Place place{path + ":" + std::to_string(number)};
    if (cells.size() != columns.size()) {
      throw Refused(error("there are " + std::to_string(cells.size()) + " cells, but " +
                              std::to_string(columns.size()) + " columns",
                          place));
    }
    for (size_t i = 0; i < cells.size(); ++i) {
      const auto value = numberFrom(cells[i]);
      if (!value) {
        throw Refused(error(
            "column '" + columns[i].name + "' has '" + cells[i] + "', which is no number", place));
      }
      columns[i].values.push_back(*value);
    }
  }
  if (columns.empty() || columns[0].values.empty()) {
    throw Refused(error("the file has no rows of numbers", Place{path}));
  }
  return columns;
}

/// The array that a column belongs to.
std::string arrayOf(const std::vector<Column>& columns, size_t i) {
  const auto dotted = [](const Column& c) { return c.name.find('.') != std::string::npos; };
  if (std::any_of(columns.begin(), columns.end(), dotted)) {
    return columns[i].name.substr(0, columns[i].name.find('.'));
  }
  const auto target =
      std::find_if(columns.begin(), columns.end(), [](const Column& c) { return c.name == "y"; });
  const size_t at =
      target == columns.end() ? columns.size() - 1 : static_cast<size_t>(target - columns.begin());
  return i == at ? "y" : "x";
}

at::Tensor arrayFrom(const std::vector<const Column*>& columns, const std::string& name) {
  std::vector<at::Tensor> each;
  bool integers = true;
  for (const Column* column : columns) {
    each.push_back(at::tensor(column->values, at::kDouble));
    for (const double value : column->values) {
      integers = integers && value == std::floor(value) && std::abs(value) < 9e15;
    }
  }
  const at::Tensor values = at::stack(each, 1);
  if (name != "y" || columns.size() > 1 || !integers) return values;
  return values.select(1, 0).to(at::kLong);
}

}  // namespace

bool isCsv(const std::string& head) {
  if (head.empty()) return false;
  for (const char c : head) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 32 && c != '\n' && c != '\r' && c != '\t') return false;
  }
  const std::string line = head.substr(0, head.find('\n'));
  return line.find_first_of(",;\t") != std::string::npos && line[0] != '{' && line[0] != '[' &&
         line[0] != '<';
}

std::vector<NamedArray> readCsv(const std::string& path) {
  const std::vector<Column> columns = readColumns(path);
  std::vector<std::string> order;
  std::map<std::string, std::vector<const Column*>> groups;
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string name = arrayOf(columns, i);
    if (!groups.count(name)) order.push_back(name);
    groups[name].push_back(&columns[i]);
  }
  std::vector<NamedArray> arrays;
  for (const std::string& name : order) arrays.push_back({name, arrayFrom(groups.at(name), name)});
  return arrays;
}

}  // namespace chorus
