#include "tools/common/parameter_groups.h"

#include <fnmatch.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tools/common/csv.h"
#include "tools/common/values.h"

namespace chorus {
namespace {

struct Row {
  std::string pattern;
  ParameterGroup group;
  size_t line = 0;
};

std::string readText(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Refused(error("cannot read the file", Place{path}));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// "weight-decay" and "weight_decay" are one name.
std::string underscored(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::vector<std::string> columnsOf(const CsvLine& header, const OptimizerSpec& optimizer,
                                   const Place& place) {
  std::vector<std::string> columns, known;
  for (const auto& [name, values] : optimizer.values) known.push_back(name);
  for (const std::string& cell : header.cells) columns.push_back(underscored(trimmed(cell)));
  if (columns.empty() || columns[0] != "pattern") {
    throw Refused(error("the first column has to be 'pattern'", place));
  }
  for (size_t i = 1; i < columns.size(); ++i) {
    if (optimizer.values.count(columns[i])) continue;
    const std::string one = columns[i].substr(0, columns[i].size() - columns[i].ends_with("s"));
    if (optimizer.values.count(one + "1") && optimizer.values.count(one + "2")) {
      throw Refused(error("a cell holds one number, and '" + columns[i] + "' are two", place)
                        .helpWith("columns '" + one + "1' and '" + one + "2' give them"));
    }
    const std::string near = nearest(columns[i], known);
    throw Refused(error("the optimizer '" + optimizer.name + "' has no hyperparameter '" +
                            columns[i] + "'" +
                            (near.empty() ? "" : "; did you mean '" + near + "'?"),
                        place));
  }
  return columns;
}

Row rowFrom(const CsvLine& line, const std::vector<std::string>& columns, const FusedModel& model,
            const std::string& file) {
  const std::string where = file + ": line " + std::to_string(line.number);
  if (line.cells.size() != columns.size()) {
    throw Refused(error("there are " + std::to_string(line.cells.size()) + " cells, but " +
                            std::to_string(columns.size()) + " columns",
                        Place{where}));
  }
  Row row{trimmed(line.cells[0]), {{}, model.optimizer->values}, line.number};
  for (size_t i = 1; i < columns.size(); ++i) {
    if (trimmed(line.cells[i]).empty()) continue;
    std::vector<double>& values = row.group.values.at(columns[i]);
    const std::vector<std::string> texts =
        oneOrKTexts(where + ": " + columns[i], line.cells[i], model.k(), ';');
    for (size_t k = 0; k < model.k(); ++k) {
      values[k] = parseNumber(where + ": " + columns[i], texts[k]);
    }
  }
  OptimizerSpec mine = *model.optimizer;
  mine.values = row.group.values;
  checkOptimizer(mine, model.k());
  return row;
}

}  // namespace

void applyParameterGroups(const TrainingOptions& options, FusedModel& model) {
  if (options.parameter_groups.empty()) return;
  const Place place{options.parameter_groups};
  if (!model.optimizer) throw Refused(usage("--param-groups without an optimizer"));
  const std::vector<CsvLine> lines =
      parseCsv(options.parameter_groups, readText(options.parameter_groups));
  if (lines.size() < 2) throw Refused(error("the table has no rows", place));
  model.optimizer->groups.clear();
  const std::vector<std::string> columns = columnsOf(lines[0], *model.optimizer, place);
  std::vector<Row> rows;
  for (size_t i = 1; i < lines.size(); ++i)
    rows.push_back(rowFrom(lines[i], columns, model, options.parameter_groups));
  for (const size_t slot : trainableSlots(model)) {
    const std::string& name = model.prototype.slots[slot].name;
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) {
      return fnmatch(r.pattern.c_str(), name.c_str(), 0) == 0;
    });
    if (row != rows.end()) row->group.parameters.push_back(name);
  }
  for (const Row& row : rows) {
    if (row.group.parameters.empty()) {
      throw Refused(error("no trainable parameter is left for the pattern '" + row.pattern + "'",
                          Place{options.parameter_groups + ": line " + std::to_string(row.line)}));
    }
    model.optimizer->groups.push_back(row.group);
  }
}

}  // namespace chorus
