#include "tools/common/hparams.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "chorus/diagnostics.h"
#include "lib/support/names.h"
#include "tools/common/csv.h"
#include "tools/common/json_text.h"
#include "tools/common/values.h"

namespace chorus {
namespace {

using nlohmann::json;

constexpr const char* kMember = "member";

// One row as the file has it: its place in words, and cells by column.
struct Row {
  std::string place;
  std::map<std::string, json> cells;
};

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  Place place;
  place.file = file;
  throw Refused(error(what, place));
}

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string columnName(const std::string& file, const std::string& text,
                       const std::vector<std::string>& known) {
  const std::string name = dashed(trimmed(text));
  if (name == kMember || std::find(known.begin(), known.end(), name) != known.end()) return name;
  const std::string near = nearest(name, known);
  refuse(file, "unknown column '" + printable(text) + "'" +
                   (near.empty() ? "" : "; did you mean '" + near + "'?"));
}

std::optional<double> asNumber(const std::string& text) {
  try {
    return parseNumber("", text);
  } catch (const Refused&) {
    return std::nullopt;
  }
}

json csvCell(const std::string& text) {
  const std::string cell = trimmed(text);
  if (cell.empty()) return nullptr;
  if (cell == "true" || cell == "True") return true;
  if (cell == "false" || cell == "False") return false;
  const json parsed = json::parse(cell, nullptr, false);
  if (parsed.is_number() || parsed.is_array()) return parsed;
  if (const auto number = asNumber(cell)) return *number;
  const char separator = cell.find(';') != std::string::npos ? ';' : ',';
  json list = json::array();
  for (const std::string& part : splitText(cell, separator)) {
    const auto number = asNumber(part);
    if (!number) return cell;
    list.push_back(*number);
  }
  return list;
}

std::vector<Row> readCsvRows(const std::string& file, const std::string& text,
                             const std::vector<std::string>& known) {
  const std::vector<CsvLine> lines = parseCsv(file, text);
  if (lines.empty()) refuse(file, "is empty; a header with column names is needed");
  std::vector<std::string> header;
  for (const std::string& cell : lines.front().cells) {
    header.push_back(columnName(file, cell, known));
    if (std::count(header.begin(), header.end(), header.back()) > 1) {
      refuse(file, "column '" + header.back() + "' is there twice");
    }
  }
  std::vector<Row> rows;
  for (size_t i = 1; i < lines.size(); ++i) {
    Row row{"line " + std::to_string(lines[i].number), {}};
    if (lines[i].cells.size() != header.size()) {
      refuse(file, row.place + " has " + std::to_string(lines[i].cells.size()) +
                       " cells; the header has " + std::to_string(header.size()));
    }
    for (size_t c = 0; c < header.size(); ++c) {
      const std::string& cell = lines[i].cells[c];
      row.cells[header[c]] = header[c] == kMember ? json(trimmed(cell)) : csvCell(cell);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> readJsonRows(const std::string& file, const std::string& text,
                              const std::vector<std::string>& known) {
  const json list = parseJsonText(file, text);
  if (!list.is_array()) refuse(file, "is not a JSON list of objects");
  std::vector<Row> rows;
  for (size_t i = 0; i < list.size(); ++i) {
    Row row{"row " + std::to_string(i), {}};
    if (!list[i].is_object()) refuse(file, row.place + " is not a JSON object");
    for (const auto& [key, value] : list[i].items()) {
      const std::string name = columnName(file, key, known);
      if (row.cells.count(name)) refuse(file, row.place + ": column '" + name + "' is there twice");
      if (value.is_object())
        refuse(file, row.place + ", column '" + name + "': an object is not a value");
      row.cells[name] = value;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Puts the rows in the order of the members, by their `member` cells.
std::vector<Row> inMemberOrder(const std::string& file, const std::vector<Row>& rows,
                               const std::vector<std::string>& members) {
  std::map<std::string, const Row*> by_name;
  for (const Row& row : rows) {
    const auto cell = row.cells.find(kMember);
    if (cell == row.cells.end()) refuse(file, row.place + " names no member");
    const std::string name =
        cell->second.is_string() ? cell->second.get<std::string>() : cell->second.dump();
    if (std::find(members.begin(), members.end(), name) == members.end()) {
      const bool number =
          !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
      const std::string near = number ? "" : nearest(name, members);
      std::string names;
      for (size_t k = 0; k < std::min<size_t>(members.size(), 3); ++k)
        names += (k ? ", '" : "'") + members[k] + "'";
      refuse(file, row.place + ": there is no member '" + printable(name) + "'" +
                       (near.empty() ? "" : "; did you mean '" + near + "'?") +
                       (number ? "; members go by their names: " + names +
                                     (members.size() > 3 ? ", ..." : "") +
                                     " (without the column, rows are in the order of members)"
                               : ""));
    }
    if (!by_name.emplace(name, &row).second)
      refuse(file, row.place + ": member '" + name + "' is there twice");
  }
  std::vector<Row> ordered;
  for (const std::string& member : members) {
    if (!by_name.count(member)) refuse(file, "has no row for member '" + member + "'");
    ordered.push_back(*by_name[member]);
  }
  return ordered;
}

[[noreturn]] void refuseCell(const HparamsTable& table, const std::string& column, size_t member,
                             const std::string& what) {
  refuse(table.file, table.places[member] + ", column '" + column + "': " + what);
}

// Calls read(cell) for each cell; an empty result is refused as not being `kind`.
template <class Value, class Read>
std::vector<Value> readColumn(const HparamsTable& table, const std::string& column,
                              const std::optional<Value>& fallback, const char* kind, Read read) {
  std::vector<Value> values;
  const std::vector<json>& cells = table.columns.at(column);
  for (size_t k = 0; k < cells.size(); ++k) {
    const std::optional<Value> value = cells[k].is_null() ? fallback : read(cells[k]);
    if (!value) {
      refuseCell(table, column, k,
                 cells[k].is_null() ? "there is no value" : cells[k].dump() + " is not " + kind);
    }
    values.push_back(*value);
  }
  return values;
}

}  // namespace

HparamsTable readHparams(const std::string& file, const std::vector<std::string>& known,
                         const std::vector<std::string>& members) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream content;
  content << in.rdbuf();
  const std::string text = content.str();
  if (!in.is_open() || in.bad()) refuse(file, "cannot read the hyperparameters");
  const bool is_json = trimmed(text).starts_with("[") || trimmed(text).starts_with("{");
  std::vector<Row> rows =
      is_json ? readJsonRows(file, text, known) : readCsvRows(file, text, known);
  if (rows.size() != members.size()) {
    refuse(file, "has " + std::to_string(rows.size()) + (rows.size() == 1 ? " row" : " rows") +
                     " for " + std::to_string(members.size()) +
                     (members.size() == 1 ? " member" : " members"));
  }
  const bool named = std::any_of(rows.begin(), rows.end(),
                                 [](const Row& row) { return row.cells.count(kMember); });
  if (named) rows = inMemberOrder(file, rows, members);
  HparamsTable table;
  table.file = file;
  for (size_t k = 0; k < rows.size(); ++k) {
    table.places.push_back(rows[k].place);
    for (const auto& [name, cell] : rows[k].cells) {
      if (name == kMember) continue;
      table.columns[name].resize(rows.size());
      table.columns[name][k] = cell;
    }
  }
  return table;
}

std::vector<double> numbers(const HparamsTable& table, const std::string& column,
                            std::optional<double> fallback) {
  return readColumn<double>(table, column, fallback, "a number", [](const json& cell) {
    return cell.is_number() ? std::optional<double>(cell.get<double>()) : std::nullopt;
  });
}

std::vector<int64_t> integers(const HparamsTable& table, const std::string& column,
                              std::optional<int64_t> fallback) {
  return readColumn<int64_t>(table, column, fallback, "an integer", [](const json& cell) {
    const bool whole = cell.is_number_float() &&
                       std::nearbyint(cell.get<double>()) == cell.get<double>() &&
                       std::fabs(cell.get<double>()) < 9e15;
    const bool fits = !cell.is_number_unsigned() ||
                      cell.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
    return (cell.is_number_integer() && fits) || whole ? std::optional<int64_t>(cell.get<int64_t>())
                                                       : std::nullopt;
  });
}

std::vector<bool> flags(const HparamsTable& table, const std::string& column) {
  return readColumn<bool>(table, column, false, "true or false", [](const json& cell) {
    if (cell.is_boolean()) return std::optional<bool>(cell.get<bool>());
    const bool digit = cell.is_number_integer() && (cell == 0 || cell == 1);
    return digit ? std::optional<bool>(cell == 1) : std::nullopt;
  });
}

std::vector<std::pair<double, double>> pairs(const HparamsTable& table, const std::string& column,
                                             std::optional<std::pair<double, double>> fallback) {
  using Pair = std::pair<double, double>;
  return readColumn<Pair>(table, column, fallback, "a pair of numbers", [](const json& cell) {
    const bool pair =
        cell.is_array() && cell.size() == 2 && cell[0].is_number() && cell[1].is_number();
    return pair ? std::optional<Pair>(Pair{cell[0], cell[1]}) : std::nullopt;
  });
}

std::vector<std::string> texts(const HparamsTable& table, const std::string& column) {
  return readColumn<std::string>(table, column, "", "text", [](const json& cell) {
    return std::optional<std::string>(cell.is_string() ? cell.get<std::string>() : cell.dump());
  });
}

}  // namespace chorus
