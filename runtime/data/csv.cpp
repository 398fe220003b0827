#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

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

std::vector<Column> readColumns(const std::string& path, size_t& header_line) {
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
      header_line = number;
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

/// "x.2.10" -> "x", {2, 10}; nullopt for a name that does not end in numbers.
std::optional<std::pair<std::string, std::vector<int64_t>>> numberedName(const std::string& name) {
  std::vector<int64_t> numbers;
  size_t end = name.size();
  while (true) {
    const size_t dot = end == 0 ? std::string::npos : name.rfind('.', end - 1);
    if (dot == std::string::npos || dot == 0) break;
    int64_t number = 0;
    const char* last = name.data() + end;
    const auto [stop, failure] = std::from_chars(name.data() + dot + 1, last, number);
    if (failure != std::errc() || stop != last || number < 0) break;
    numbers.insert(numbers.begin(), number);
    end = dot;
  }
  if (numbers.empty()) return std::nullopt;
  return std::pair{name.substr(0, end), numbers};
}

/// Columns of one array, in its order; `sizes` are those of a row, empty where there is one column
/// without a number.
struct Group {
  std::string name;
  std::vector<const Column*> columns;
  std::vector<int64_t> sizes;
};

std::string numbered(const std::string& name, const std::vector<int64_t>& numbers) {
  std::string text = name;
  for (const int64_t number : numbers) text += "." + std::to_string(number);
  return text;
}

using ByNumber = std::map<std::vector<int64_t>, const Column*>;

/// Every number up to the greatest, in every dimension, has to be there.
Group groupOf(const std::string& name, const ByNumber& columns, const Place& header) {
  Group group{name, {}, std::vector<int64_t>(columns.begin()->first.size(), 0)};
  for (const auto& [numbers, column] : columns) {
    if (numbers.size() != group.sizes.size()) {
      throw Refused(error("the columns '" + columns.begin()->second->name + "' and '" +
                              column->name + "' of one array have " +
                              std::to_string(group.sizes.size()) + " and " +
                              std::to_string(numbers.size()) + " numbers",
                          header));
    }
    for (size_t d = 0; d < numbers.size(); ++d)
      group.sizes[d] = std::max(group.sizes[d], numbers[d]);
  }
  std::vector<int64_t> wanted(group.sizes.size(), 0);
  for (const auto& [numbers, column] : columns) {
    if (numbers != wanted) {
      throw Refused(
          error("there is a column '" + column->name + "', but no '" + numbered(name, wanted) + "'",
                header)
              .note("the columns of an array are numbered from 0 on, without gaps"));
    }
    group.columns.push_back(column);
    for (size_t d = wanted.size(); d-- > 0 && ++wanted[d] > group.sizes[d];) {
      if (d > 0) wanted[d] = 0;
    }
  }
  if (wanted[0] <= group.sizes[0]) {
    throw Refused(error("there is a column '" + columns.rbegin()->second->name + "', but no '" +
                            numbered(name, wanted) + "'",
                        header)
                      .note("the columns of an array are numbered from 0 on, without gaps"));
  }
  for (int64_t& size : group.sizes) ++size;
  return group;
}

/// No two columns are of one name, or of one number.
void refuseDoubles(const std::vector<Column>& columns, const Place& header) {
  std::map<std::pair<std::string, std::vector<int64_t>>, size_t> seen;
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto own = numberedName(columns[i].name);
    const auto [before, fresh] =
        seen.emplace(own ? *own : std::pair{columns[i].name, std::vector<int64_t>()}, i);
    if (fresh || columns[i].name.empty()) continue;
    throw Refused(error("columns " + std::to_string(before->second + 1) + " and " +
                            std::to_string(i + 1) + " are '" + columns[before->second].name +
                            "' and '" + columns[i].name + "': one of them is there twice",
                        header));
  }
}

/// "x.0", "x.1", ... are one array; each other column is an array of its own.
std::vector<Group> numberedGroups(const std::vector<Column>& columns, const Place& header) {
  std::vector<std::string> order;
  std::map<std::string, ByNumber> arrays;
  for (const Column& column : columns) {
    const auto own = numberedName(column.name);
    const std::string name = own ? own->first : column.name;
    if (!arrays.count(name)) order.push_back(name);
    ByNumber& mine = arrays[name];
    mine[own ? own->second : std::vector<int64_t>()] = &column;
    // The column without a number comes first in the map.
    if (mine.size() > 1 && mine.begin()->first.empty()) {
      throw Refused(error("the column '" + name + "' has no number, but '" +
                              mine.rbegin()->second->name + "' has one",
                          header));
    }
  }
  std::vector<Group> groups;
  for (const std::string& name : order) {
    const ByNumber& mine = arrays.at(name);
    groups.push_back(mine.begin()->first.empty() ? Group{name, {mine.begin()->second}, {}}
                                                 : groupOf(name, mine, header));
  }
  return groups;
}

/// Without numbers: the column "y", else the last one, and all others.
std::vector<Group> plainGroups(const std::vector<Column>& columns) {
  const auto named = std::find_if(columns.begin(), columns.end(),
                                  [](const Column& column) { return column.name == "y"; });
  const Column* target = named == columns.end() ? &columns.back() : &*named;
  Group x{"x", {}, {static_cast<int64_t>(columns.size()) - 1}};
  for (const Column& column : columns) {
    if (&column != target) x.columns.push_back(&column);
  }
  std::vector<Group> groups;
  if (!x.columns.empty()) groups.push_back(x);
  groups.push_back({"y", {target}, {}});
  return groups;
}

at::Tensor arrayFrom(const Group& group) {
  std::vector<at::Tensor> each;
  bool integers = true;
  for (const Column* column : group.columns) {
    each.push_back(at::tensor(column->values, at::kDouble));
    for (const double value : column->values) {
      integers = integers && value == std::floor(value) && std::abs(value) < 9e15;
    }
  }
  const at::Tensor values = at::stack(each, 1);
  if (group.name == "y" && group.columns.size() == 1 && integers) {
    return values.select(1, 0).to(at::kLong);
  }
  if (group.sizes.size() < 2) return values;
  std::vector<int64_t> sizes = {values.size(0)};  // [N,columns] -> [N,...]
  sizes.insert(sizes.end(), group.sizes.begin(), group.sizes.end());
  return values.reshape(sizes);
}

}  // namespace

bool isCsv(const std::string& head) {
  if (head.empty()) return false;
  for (const char c : head) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 32 && c != '\n' && c != '\r' && c != '\t') return false;
  }
  const size_t begin = head.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return false;
  const std::string line = head.substr(begin, head.find('\n', begin) - begin);
  return line.find_first_of(",;\t") != std::string::npos && line[0] != '{' && line[0] != '[' &&
         line[0] != '<';
}

std::vector<NamedArray> readCsv(const std::string& path) {
  size_t header_line = 1;
  const std::vector<Column> columns = readColumns(path, header_line);
  const Place header{path + ":" + std::to_string(header_line)};
  refuseDoubles(columns, header);
  const bool numbers = std::any_of(columns.begin(), columns.end(), [](const Column& column) {
    return numberedName(column.name).has_value();
  });
  std::vector<NamedArray> arrays;
  for (const Group& group : numbers ? numberedGroups(columns, header) : plainGroups(columns)) {
    arrays.push_back({group.name, arrayFrom(group)});
  }
  return arrays;
}

}  // namespace chorus
