#include "tools/chorus-run/report.h"

#include <cmath>
#include <iostream>
#include <numeric>

#include "tools/common/terminal.h"

namespace chorus {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no NaN.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json numbersOf(const std::vector<double>& values) {
  Json list = Json::array();
  for (double value : values) list.push_back(number(value));
  return list;
}

/// "0.21" for one member, "0.21..0.88" for several; members that rest do not count.
std::string range(const std::vector<double>& values) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (double value : values) {
    if (std::isnan(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) return "nan";
  return low == high ? numberText(low, 4) : numberText(low, 4) + ".." + numberText(high, 4);
}

void addScores(Json& line, const std::string& prefix, const std::vector<double>& loss,
               const std::map<std::string, std::vector<double>>& metrics) {
  line[prefix + "loss"] = numbersOf(loss);
  for (const auto& [name, values] : metrics) line[prefix + name] = numbersOf(values);
}

Json epochJson(const EpochResult& result, const std::vector<std::string>& names) {
  Json line;
  line["epoch"] = result.epoch;
  line["seconds"] = result.seconds;
  line["members"] = names;
  line["active"] = result.active;
  line["lr"] = numbersOf(result.lr);
  addScores(line, "train_", result.train_loss, result.train_metrics);
  if (result.validation) {
    addScores(line, "val_", result.validation->loss, result.validation->metrics);
  }
  return line;
}

/// The epoch whose state the member has: the best one where that is restored, else the last in
/// which it took part; nullptr if none.
const EpochResult* lastOf(const TrainResult& result, size_t k) {
  const int64_t best = result.members[k].best_epoch;
  for (auto epoch = result.epochs.rbegin(); epoch != result.epochs.rend(); ++epoch) {
    if (best > 0 ? epoch->epoch == best : epoch->active[k]) return &*epoch;
  }
  return nullptr;
}

std::string cell(double value) { return std::isnan(value) ? "-" : numberText(value); }

/// Column names and member k's numbers of an epoch.
std::vector<std::pair<std::string, double>> numbersOf(const EpochResult& result, size_t k) {
  std::vector<std::pair<std::string, double>> numbers = {{"train_loss", result.train_loss[k]}};
  for (const auto& [name, values] : result.train_metrics)
    numbers.emplace_back("train_" + name, values[k]);
  if (!result.validation) return numbers;
  numbers.emplace_back("val_loss", result.validation->loss[k]);
  for (const auto& [name, values] : result.validation->metrics)
    numbers.emplace_back("val_" + name, values[k]);
  return numbers;
}

/// Column names and what member k ended with; empty where it took part in no epoch.
std::vector<std::pair<std::string, double>> finalNumbers(const TrainResult& result, size_t k) {
  const EpochResult* last = lastOf(result, k);
  if (!last) return {};
  if (!result.written) return numbersOf(*last, k);
  EpochResult end = *last;
  end.validation = result.written;
  return numbersOf(end, k);
}

struct Spread {
  std::string name;
  double mean, deviation;
};

/// Mean and sample standard deviation over the members, per column.
std::vector<Spread> spreadOf(const TrainResult& result, size_t k) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<double>> columns;
  for (size_t i = 0; i < k; ++i) {
    for (const auto& [name, value] : finalNumbers(result, i)) {
      if (columns[name].empty()) names.push_back(name);
      columns[name].push_back(value);
    }
  }
  std::vector<Spread> spreads;
  for (const std::string& name : names) {
    const std::vector<double>& values = columns[name];
    const auto count = static_cast<double>(values.size());
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
    double squares = 0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    spreads.push_back({name, mean, std::sqrt(squares / (count - 1))});
  }
  return spreads;
}

Json trainingJson(const FusedModel& model, const TrainResult& result) {
  Json members = Json::array();
  for (size_t k = 0; k < model.k(); ++k) {
    const MemberEnd& end = result.members[k];
    Json member;
    member["member"] = model.member_names[k];
    member["epochs"] = end.epochs;
    if (end.best_epoch > 0) member["best_epoch"] = end.best_epoch;
    if (!end.reason.empty()) member["ended"] = end.reason;
    for (const auto& [name, value] : finalNumbers(result, k)) member[name] = number(value);
    members.push_back(member);
  }
  return members;
}

/// "train_loss" -> "train loss".
std::string spaced(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

Table trainingTable(const FusedModel& model, const TrainResult& result) {
  Table table;
  table.header = {"member", "epochs"};
  bool best = false, ended = false;
  for (const MemberEnd& end : result.members) {
    best = best || end.best_epoch > 0;
    ended = ended || !end.reason.empty();
  }
  if (best) table.header.emplace_back("best");
  std::vector<std::string> columns = {"train_loss"};
  if (!result.epochs.empty()) {
    columns.clear();
    for (const auto& [name, value] : numbersOf(result.epochs.front(), 0)) columns.push_back(name);
  }
  for (const std::string& name : columns) table.header.push_back(spaced(name));
  if (ended) table.header.emplace_back("ended");
  for (size_t k = 0; k < model.k(); ++k) {
    const MemberEnd& end = result.members[k];
    std::vector<std::string> row = {model.member_names[k], std::to_string(end.epochs)};
    if (best) row.push_back(end.best_epoch > 0 ? std::to_string(end.best_epoch) : "-");
    std::map<std::string, double> numbers;
    for (const auto& [name, value] : finalNumbers(result, k)) numbers[name] = value;
    for (const std::string& name : columns)
      row.push_back(numbers.count(name) ? cell(numbers[name]) : "-");
    if (ended) row.push_back(end.reason.empty() ? "-" : end.reason);
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// Two more rows below the members: mean and standard deviation.
void addSpread(Table& table, const TrainResult& result, size_t k) {
  std::vector<std::string> mean(table.header.size(), "-"), deviation = mean;
  mean[0] = "mean";
  deviation[0] = "std";
  for (const Spread& spread : spreadOf(result, k)) {
    const auto at = std::find(table.header.begin(), table.header.end(), spaced(spread.name));
    if (at == table.header.end()) continue;
    mean[static_cast<size_t>(at - table.header.begin())] = cell(spread.mean);
    deviation[static_cast<size_t>(at - table.header.begin())] = cell(spread.deviation);
  }
  table.rows.push_back(mean);
  table.rows.push_back(deviation);
}

}  // namespace

EpochReporter::EpochReporter(const RunOptions& options, const FusedModel& model, const RunData&)
    : prints_(!options.quiet && !options.json), names_(model.member_names), log_path_(options.log) {
  if (log_path_.empty()) return;
  log_.open(log_path_, options.resume.empty() ? std::ios::trunc : std::ios::app);
  if (!log_) throw Refused(error("cannot write the log", Place{log_path_}));
}

void EpochReporter::report(const EpochResult& result, int64_t last_epoch) {
  if (log_.is_open()) {
    log_ << epochJson(result, names_).dump() << std::endl;
    if (!log_) throw Refused(error("cannot write the log", Place{log_path_}));
  }
  if (!prints_) return;
  if (!explained_ && names_.size() > 1) {
    std::cout << "a..b: from the least to the greatest of the " << names_.size() << " members\n";
  }
  explained_ = true;
  std::cout << "epoch " << result.epoch << "/" << last_epoch << "  train loss "
            << range(result.train_loss);
  for (const auto& [name, values] : result.train_metrics)
    std::cout << "  train " << name << " " << range(values);
  if (result.validation) {
    std::cout << "  val loss " << range(result.validation->loss);
    for (const auto& [name, values] : result.validation->metrics)
      std::cout << "  val " << name << " " << range(values);
  }
  std::cout << "  " << numberText(result.seconds, 3) << " s" << std::endl;
}

void reportTraining(const RunOptions& options, const FusedModel& model, const TrainResult& result) {
  if (options.json) {
    Json json;
    json["output"] = options.output;
    json["members"] = trainingJson(model, result);
    for (const Spread& spread : options.folds > 0 && !options.chosen ? spreadOf(result, model.k())
                                                                     : std::vector<Spread>()) {
      json["mean"][spread.name] = number(spread.mean);
      json["std"][spread.name] = number(spread.deviation);
    }
    double seconds = 0;
    for (const EpochResult& epoch : result.epochs) seconds += epoch.seconds;
    json["seconds"] = seconds;
    std::cout << json.dump(2) << std::endl;
  }
  if (options.json || options.quiet) return;
  Table table = trainingTable(model, result);
  if (options.folds > 0 && !options.chosen) addSpread(table, result, model.k());
  std::cout << format(table) << std::flush;
}

void reportPredictions(const RunOptions& options, const FusedModel& model,
                       const NamedArrays& arrays) {
  if (options.json) {
    Json json;
    json["predictions"] = options.predict;
    json["members"] = model.member_names;
    for (const auto& [name, array] : arrays) json["arrays"][name] = array.sizes().vec();
    std::cout << json.dump(2) << std::endl;
    return;
  }
  if (options.quiet) return;
  std::cout << "wrote " << options.predict << ":";
  for (const auto& [name, array] : arrays) std::cout << " " << name << " " << array.sizes();
  std::cout << std::endl;
}

void reportScores(const RunOptions& options, const FusedModel& model, const Dataset& data,
                  const Scores& scores) {
  if (options.json) {
    Json members = Json::array();
    for (size_t k = 0; k < model.k(); ++k) {
      Json member;
      member["member"] = model.member_names[k];
      member["loss"] = number(scores.loss[k]);
      for (const auto& [name, values] : scores.metrics) member[name] = number(values[k]);
      members.push_back(member);
    }
    Json result;
    result["data"] = options.data;
    result["rows"] = data.rows();
    result["members"] = members;
    std::cout << result.dump(2) << std::endl;
  }
  if (options.json || options.quiet) return;
  Table table;
  table.header = {"member", "loss"};
  for (const auto& [name, values] : scores.metrics) table.header.push_back(name);
  for (size_t k = 0; k < model.k(); ++k) {
    table.rows.push_back({model.member_names[k], cell(scores.loss[k])});
    for (const auto& [name, values] : scores.metrics) table.rows.back().push_back(cell(values[k]));
  }
  std::cout << format(table) << std::flush;
}

}  // namespace chorus
