// `--hparams FILE`: hyperparameters of K members as a table.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace chorus {

/// Columns are named like options, with '-' ("weight-decay"). A cell is a JSON number, truth value,
/// string, list of numbers (a pair), or null where the file leaves it out (then the option's
/// default holds).
struct HparamsTable {
  std::string file;
  std::map<std::string, std::vector<nlohmann::json>>
      columns;                      ///< K cells each, in the order of the members
  std::vector<std::string> places;  ///< of each member's row: "row 3" or "line 4"

  bool has(const std::string& column) const { return columns.count(column) != 0; }
};

/// Reads a CSV file with a header, or a JSON list of objects: one row for each of `members`, in
/// order, or in any order with a `member` column. Told apart by content. In CSV a pair is
/// "0.9;0.999" (or quoted with a comma); `true` and `false` are truth values; an empty cell is
/// null. Throws Refused (error) naming file, row and column: unknown column (with the nearest of
/// `known`), a column twice, wrong number of rows or cells, a member missing, unknown or twice.
HparamsTable readHparams(const std::string& file, const std::vector<std::string>& known,
                         const std::vector<std::string>& members);

/// A column as K values. `fallback` stands for null cells; without it they are an error. A cell of
/// another kind is an error that names file, row and column.
std::vector<double> numbers(const HparamsTable& table, const std::string& column,
                            std::optional<double> fallback = std::nullopt);
std::vector<int64_t> integers(const HparamsTable& table, const std::string& column,
                              std::optional<int64_t> fallback = std::nullopt);
std::vector<bool> flags(const HparamsTable& table,
                        const std::string& column);  ///< null: false; 0 and 1 are fine
std::vector<std::pair<double, double>> pairs(
    const HparamsTable& table, const std::string& column,
    std::optional<std::pair<double, double>> fallback = {});
std::vector<std::string> texts(const HparamsTable& table, const std::string& column);  ///< null: ""

}  // namespace chorus
