#include "tools/chorus-run/report.h"

#include <cmath>
#include <iostream>

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

Json epochJson(const EpochResult& result, const std::vector<std::string>& names,
               const std::string& metric) {
  Json line;
  line["epoch"] = result.epoch;
  line["seconds"] = result.seconds;
  line["members"] = names;
  line["active"] = result.active;
  line["train_loss"] = numbersOf(result.train_loss);
  if (!result.validation) return line;
  line["val_loss"] = numbersOf(result.validation->loss);
  if (!metric.empty()) line["val_" + metric] = numbersOf(result.validation->metric);
  return line;
}

/// The last epoch in which the member took part; nullptr if none.
const EpochResult* lastOf(const std::vector<EpochResult>& epochs, size_t k) {
  for (auto result = epochs.rbegin(); result != epochs.rend(); ++result) {
    if (result->active[k]) return &*result;
  }
  return nullptr;
}

std::string cell(double value) { return std::isnan(value) ? "-" : numberText(value); }

Json trainingJson(const FusedModel& model, const std::string& metric,
                  const std::vector<EpochResult>& epochs) {
  Json members = Json::array();
  for (size_t k = 0; k < model.k(); ++k) {
    const EpochResult* last = lastOf(epochs, k);
    Json member;
    member["member"] = model.member_names[k];
    member["epochs"] = last ? last->epoch : 0;
    if (last) member["train_loss"] = number(last->train_loss[k]);
    if (last && last->validation) {
      member["val_loss"] = number(last->validation->loss[k]);
      if (!metric.empty()) member["val_" + metric] = number(last->validation->metric[k]);
    }
    members.push_back(member);
  }
  return members;
}

}  // namespace

EpochReporter::EpochReporter(const RunOptions& options, const FusedModel& model,
                             const RunData& data)
    : prints_(!options.quiet && !options.json),
      names_(model.member_names),
      metric_(metricName(model, data.train)),
      log_path_(options.log) {
  if (log_path_.empty()) return;
  log_.open(log_path_, std::ios::trunc);
  if (!log_) throw Refused(error("cannot write the log", Place{log_path_}));
}

void EpochReporter::report(const EpochResult& result, int64_t last_epoch) {
  if (log_.is_open()) {
    log_ << epochJson(result, names_, metric_).dump() << std::endl;
    if (!log_) throw Refused(error("cannot write the log", Place{log_path_}));
  }
  if (!prints_) return;
  std::cout << "epoch " << result.epoch << "/" << last_epoch << "  train loss "
            << range(result.train_loss);
  if (result.validation) {
    std::cout << "  val loss " << range(result.validation->loss);
    if (!metric_.empty())
      std::cout << "  val " << metric_ << " " << range(result.validation->metric);
  }
  std::cout << "  " << numberText(result.seconds, 3) << " s" << std::endl;
}

void reportTraining(const RunOptions& options, const FusedModel& model, const RunData& data,
                    const std::vector<EpochResult>& epochs) {
  const std::string metric = metricName(model, data.train);
  if (options.json) {
    Json result;
    result["output"] = options.output;
    result["members"] = trainingJson(model, metric, epochs);
    double seconds = 0;
    for (const EpochResult& epoch : epochs) seconds += epoch.seconds;
    result["seconds"] = seconds;
    std::cout << result.dump(2) << std::endl;
  }
  if (options.json || options.quiet) return;
  Table table;
  table.header = {"member", "epochs", "train loss"};
  if (data.validation) table.header.push_back("val loss");
  if (data.validation && !metric.empty()) table.header.push_back("val " + metric);
  for (size_t k = 0; k < model.k(); ++k) {
    const EpochResult* last = lastOf(epochs, k);
    std::vector<std::string> row = {model.member_names[k], std::to_string(last ? last->epoch : 0),
                                    last ? cell(last->train_loss[k]) : "-"};
    if (data.validation) row.push_back(last ? cell(last->validation->loss[k]) : "-");
    if (data.validation && !metric.empty())
      row.push_back(last ? cell(last->validation->metric[k]) : "-");
    table.rows.push_back(std::move(row));
  }
  std::cout << format(table) << std::flush;
}

void reportScores(const RunOptions& options, const FusedModel& model, const Dataset& data,
                  const Scores& scores) {
  const std::string metric = metricName(model, data);
  if (options.json) {
    Json members = Json::array();
    for (size_t k = 0; k < model.k(); ++k) {
      Json member;
      member["member"] = model.member_names[k];
      member["loss"] = number(scores.loss[k]);
      if (!metric.empty()) member[metric] = number(scores.metric[k]);
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
  if (!metric.empty()) table.header.push_back(metric);
  for (size_t k = 0; k < model.k(); ++k) {
    table.rows.push_back({model.member_names[k], cell(scores.loss[k])});
    if (!metric.empty()) table.rows.back().push_back(cell(scores.metric[k]));
  }
  std::cout << format(table) << std::flush;
}

}  // namespace chorus
