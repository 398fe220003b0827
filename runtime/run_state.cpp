#include "runtime/run_state.h"

#include <cmath>
#include <limits>

namespace chorus {

using nlohmann::json;

namespace {

/// JSON has no NaN and no infinity.
json exact(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double numberFrom(const json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string text = value.get<std::string>();
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "nan" ? std::numeric_limits<double>::quiet_NaN()
                       : (text == "inf" ? infinity : -infinity);
}

json exact(const std::vector<double>& values) {
  json list = json::array();
  for (const double value : values) list.push_back(exact(value));
  return list;
}

std::vector<double> numbersFrom(const json& list) {
  std::vector<double> values;
  for (const json& value : list) values.push_back(numberFrom(value));
  return values;
}

json exact(const std::vector<std::optional<double>>& values) {
  json list = json::array();
  for (const auto& value : values) list.push_back(value ? exact(*value) : json());
  return list;
}

std::vector<std::optional<double>> optionalsFrom(const json& list) {
  std::vector<std::optional<double>> values;
  for (const json& value : list) {
    values.push_back(value.is_null() ? std::nullopt : std::optional(numberFrom(value)));
  }
  return values;
}

using Named = std::map<std::string, std::vector<double>>;

json exact(const Named& values) {
  json object = json::object();
  for (const auto& [name, numbers] : values) object[name] = exact(numbers);
  return object;
}

Named namedFrom(const json& object) {
  Named values;
  for (const auto& [name, numbers] : object.items()) values[name] = numbersFrom(numbers);
  return values;
}

json epochJson(const EpochResult& result) {
  json value = {{"epoch", result.epoch},
                {"active", result.active},
                {"train_loss", exact(result.train_loss)},
                {"train_metrics", exact(result.train_metrics)},
                {"lr", exact(result.lr)},
                {"seconds", result.seconds}};
  if (result.validation) {
    value["val_loss"] = exact(result.validation->loss);
    value["val_metrics"] = exact(result.validation->metrics);
  }
  return value;
}

EpochResult epochFrom(const json& value) {
  EpochResult result;
  result.epoch = value.at("epoch").get<int64_t>();
  result.active = value.at("active").get<std::vector<bool>>();
  result.train_loss = numbersFrom(value.at("train_loss"));
  result.train_metrics = namedFrom(value.at("train_metrics"));
  result.lr = numbersFrom(value.at("lr"));
  result.seconds = value.at("seconds").get<double>();
  if (value.contains("val_loss")) {
    result.validation =
        Scores{numbersFrom(value.at("val_loss")), namedFrom(value.at("val_metrics"))};
  }
  return result;
}

json endsJson(const std::vector<MemberEnd>& ends) {
  json list = json::array();
  for (const MemberEnd& end : ends) {
    list.push_back({{"reason", end.reason}, {"epochs", end.epochs}, {"best", end.best_epoch}});
  }
  return list;
}

std::vector<MemberEnd> endsFrom(const json& list) {
  std::vector<MemberEnd> ends;
  for (const json& end : list) {
    ends.push_back({end.at("reason").get<std::string>(), end.at("epochs").get<int64_t>(),
                    end.at("best").get<int64_t>()});
  }
  return ends;
}

json plateauJson(const std::vector<PlateauState>& states) {
  json list = json::array();
  for (const PlateauState& state : states) {
    list.push_back({{"best", state.best ? exact(*state.best) : json()},
                    {"bad", state.bad},
                    {"cooldown", state.cooldown},
                    {"rates", exact(state.rates)}});
  }
  return list;
}

}  // namespace

RunState::RunState(size_t k)
    : alive(k, true),
      ends(k),
      micro_steps(k, 0),
      updates(k, 0),
      spoiled(k, false),
      plateau(k),
      scale(k, 65536.0),
      growth(k, 0),
      averaged(k, false),
      averages(k, 0),
      best(k),
      reference(k),
      best_epoch(k, 0),
      bad_epochs(k, 0),
      taking_part(k, false),
      losses(k) {}

json RunState::toJson() const {
  json history_json = json::array();
  for (const EpochResult& result : history) history_json.push_back(epochJson(result));
  json metric_names = json::array();
  for (const auto& [name, tensor] : metric_sums) metric_names.push_back(name);
  return {{"epoch", epoch},
          {"step", step},
          {"alive", alive},
          {"ends", endsJson(ends)},
          {"micro_steps", micro_steps},
          {"updates", updates},
          {"spoiled", spoiled},
          {"plateau", plateauJson(plateau)},
          {"scale", exact(scale)},
          {"growth", growth},
          {"averaged", averaged},
          {"averages", averages},
          {"best", exact(best)},
          {"reference", exact(reference)},
          {"best_epoch", best_epoch},
          {"bad_epochs", bad_epochs},
          {"taking_part", taking_part},
          {"loss_sums", exact(losses.sums_)},
          {"loss_rows", exact(losses.rows_)},
          {"metric_sums", metric_names},
          {"seconds", seconds},
          {"history", history_json}};
}

RunState RunState::fromJson(const json& value, size_t k) {
  RunState s(k);
  s.epoch = value.at("epoch").get<int64_t>();
  s.step = value.at("step").get<int64_t>();
  s.alive = value.at("alive").get<std::vector<bool>>();
  s.ends = endsFrom(value.at("ends"));
  s.micro_steps = value.at("micro_steps").get<std::vector<int64_t>>();
  s.updates = value.at("updates").get<std::vector<int64_t>>();
  s.spoiled = value.at("spoiled").get<std::vector<bool>>();
  s.plateau.clear();
  for (const json& one : value.at("plateau")) {
    PlateauState state;
    if (!one.at("best").is_null()) state.best = numberFrom(one.at("best"));
    state.bad = one.at("bad").get<int64_t>();
    state.cooldown = one.at("cooldown").get<int64_t>();
    state.rates = numbersFrom(one.at("rates"));
    s.plateau.push_back(state);
  }
  s.scale = numbersFrom(value.at("scale"));
  s.growth = value.at("growth").get<std::vector<int64_t>>();
  s.averaged = value.at("averaged").get<std::vector<bool>>();
  s.averages = value.at("averages").get<std::vector<int64_t>>();
  s.best = optionalsFrom(value.at("best"));
  s.reference = optionalsFrom(value.at("reference"));
  s.best_epoch = value.at("best_epoch").get<std::vector<int64_t>>();
  s.bad_epochs = value.at("bad_epochs").get<std::vector<int64_t>>();
  s.taking_part = value.at("taking_part").get<std::vector<bool>>();
  s.losses.sums_ = numbersFrom(value.at("loss_sums"));
  s.losses.rows_ = numbersFrom(value.at("loss_rows"));
  for (const json& name : value.at("metric_sums"))
    s.metric_sums.emplace(name.get<std::string>(), at::Tensor());
  s.seconds = value.at("seconds").get<double>();
  for (const json& result : value.at("history")) s.history.push_back(epochFrom(result));
  for (const size_t size :
       {s.alive.size(), s.ends.size(), s.micro_steps.size(), s.updates.size(), s.spoiled.size(),
        s.plateau.size(), s.scale.size(), s.growth.size(), s.averaged.size(), s.averages.size(),
        s.best.size(), s.reference.size(), s.best_epoch.size(), s.bad_epochs.size(),
        s.taking_part.size(), s.losses.sums_.size(), s.losses.rows_.size()}) {
    if (size != k) throw std::runtime_error("the run has another number of members");
  }
  return s;
}

json resultJson(const TrainResult& result) {
  json epochs = json::array();
  for (const EpochResult& epoch : result.epochs) epochs.push_back(epochJson(epoch));
  json value = {{"epochs", epochs}, {"members", endsJson(result.members)}};
  if (result.written) {
    value["written"] = {{"loss", exact(result.written->loss)},
                        {"metrics", exact(result.written->metrics)}};
  }
  return value;
}

TrainResult resultFrom(const json& value) {
  TrainResult result;
  for (const json& epoch : value.at("epochs")) result.epochs.push_back(epochFrom(epoch));
  result.members = endsFrom(value.at("members"));
  if (value.contains("written")) {
    result.written = Scores{numbersFrom(value.at("written").at("loss")),
                            namedFrom(value.at("written").at("metrics"))};
  }
  return result;
}

}  // namespace chorus
