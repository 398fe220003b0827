#include <charconv>
#include <cmath>

#include "chorus/diagnostics.h"
#include "chorus/schedule.h"
#include "lib/support/fault.h"

namespace chorus {

const std::vector<ScheduleDefinition>& scheduleTable();  // generated from the files of this folder

const std::vector<ScheduleDefinition>& allSchedules() { return scheduleTable(); }

namespace {

const std::vector<std::string> kWarmUp = {"warmup", "warmup_start"};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else if (c != ' ' && c != '[' && c != ']') {
      parts.back() += c;
    }
  }
  return parts;
}

template <typename Number>
std::optional<Number> parsed(const std::string& text) {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

const ScheduleDefinition& find(const std::string& name) {
  std::vector<std::string> names;
  std::string all;
  for (const ScheduleDefinition& definition : allSchedules()) {
    if (definition.name == name) return definition;
    names.push_back(definition.name);
    all += (all.empty() ? "" : ", ") + definition.name;
  }
  Message message = usage("there is no schedule '" + name + "'");
  const std::string near = nearest(name, names);
  message.helpWith(near.empty() ? "there are " + all : "did you mean '" + near + "'?");
  throw Refused(message);
}

/// Removes "@step" or "@epoch" behind the name or at the end; true for "@step".
bool takeUnit(std::string& text) {
  const size_t at = text.find('@');
  if (at == std::string::npos) return false;
  const size_t end = std::min(text.find(':', at), text.size());
  const std::string unit = text.substr(at + 1, end - at - 1);
  if (unit != "step" && unit != "epoch") {
    throw Refused(usage("a schedule is stepped @epoch or @step, not '@" + unit + "'"));
  }
  text.erase(at, end - at);
  return unit == "step";
}

/// "a=1,b=2,3" -> {a: [1], b: [2, 3]}
std::map<std::string, std::vector<std::string>> argumentsOf(const ScheduleDefinition& definition,
                                                            const std::string& text) {
  std::map<std::string, std::vector<std::string>> values;
  std::string current;
  if (text.empty()) return values;
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos) {
      if (current.empty()) {
        throw Refused(usage("schedule '" + definition.name + "': '" + part +
                            "' is not of the form NAME=VALUE"));
      }
      values[current].push_back(part);
      continue;
    }
    current = part.substr(0, equals);
    std::vector<std::string> known = definition.arguments;
    known.insert(known.end(), kWarmUp.begin(), kWarmUp.end());
    if (std::find(known.begin(), known.end(), current) == known.end()) {
      const std::string near = nearest(current, known);
      throw Refused(usage("schedule '" + definition.name + "' has no argument '" + current + "'" +
                          (near.empty() ? "" : "; did you mean '" + near + "'?")));
    }
    if (values.count(current)) {
      throw Refused(usage("schedule '" + definition.name + "': '" + current + "' is given twice"));
    }
    values[current] = {part.substr(equals + 1)};
  }
  return values;
}

/// Linear from `start` to 1 over `length` counts, then the schedule from its own count 0: torch's
/// SequentialLR of LinearLR and the schedule.
Schedule withWarmUp(Schedule schedule, int64_t length, double start) {
  if (length == 0) return schedule;
  const auto main = schedule.rate;
  schedule.rate = [=](double base, int64_t t) {
    if (t >= length) return main ? main(base, t - length) : base;
    const double share = static_cast<double>(t) / static_cast<double>(length);
    return base * (start + (1 - start) * share);
  };
  if (const auto momentum = schedule.momentum) {
    schedule.momentum = [=](int64_t t) { return momentum(std::max<int64_t>(t - length, 0)); };
  }
  return schedule;
}

}  // namespace

const std::vector<std::string>* ScheduleArguments::find(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

void ScheduleArguments::refuse(const std::string& what) const {
  throw Refused(error("schedule '" + schedule_ + "': " + what));
}

std::string ScheduleArguments::text(const std::string& name) const {
  const auto* values = find(name);
  if (!values) refuse("'" + name + "' is missing");
  if (values->size() != 1) refuse("'" + name + "' has several values");
  return values->front();
}

std::vector<double> ScheduleArguments::numbers(const std::string& name) const {
  const auto* values = find(name);
  if (!values) refuse("'" + name + "' is missing");
  std::vector<double> numbers;
  for (const std::string& one : *values) {
    const auto number = parsed<double>(one);
    if (!number || !std::isfinite(*number)) refuse("'" + name + "' is not a number: '" + one + "'");
    numbers.push_back(*number);
  }
  return numbers;
}

double ScheduleArguments::number(const std::string& name, std::optional<double> fallback) const {
  if (!has(name) && fallback) return *fallback;
  text(name);
  return numbers(name).front();
}

int64_t ScheduleArguments::integer(const std::string& name, std::optional<int64_t> fallback) const {
  if (!has(name) && fallback) return *fallback;
  const auto value = parsed<int64_t>(text(name));
  if (!value) refuse("'" + name + "' is not an integer: '" + text(name) + "'");
  return *value;
}

int64_t ScheduleArguments::count(const std::string& name, std::optional<int64_t> fallback) const {
  const int64_t value = integer(name, fallback);
  if (value < 1) refuse("'" + name + "' is " + std::to_string(value) + ", but has to be 1 or more");
  return value;
}

std::string ScheduleArguments::word(const std::string& name, const std::string& fallback,
                                    const std::vector<std::string>& allowed) const {
  const std::string value = has(name) ? text(name) : fallback;
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return value;
  std::string choices;
  for (const std::string& choice : allowed) choices += (choices.empty() ? "" : ", ") + choice;
  refuse("'" + name + "' is '" + value + "', not one of " + choices);
}

bool ScheduleArguments::flag(const std::string& name, bool fallback) const {
  const std::string value =
      word(name, fallback ? "true" : "false", {"true", "false", "True", "False", "1", "0"});
  return value == "true" || value == "True" || value == "1";
}

Schedule parseSchedule(const std::string& text) {
  std::string rest = text;
  const bool per_step = takeUnit(rest);
  const size_t colon = rest.find(':');
  const ScheduleDefinition& definition = find(split(rest.substr(0, colon), ',').front());
  const ScheduleArguments arguments(
      definition.name,
      argumentsOf(definition, colon == std::string::npos ? "" : rest.substr(colon + 1)));
  Schedule schedule = definition.build(arguments);
  const int64_t length = arguments.integer("warmup", 0);
  const double start = arguments.number("warmup_start", 1.0 / 3);
  if (length < 0) arguments.refuse("'warmup' is negative");
  if (start < 0 || start > 1) arguments.refuse("'warmup_start' is not between 0 and 1");
  if (schedule.observe && per_step) arguments.refuse("it is stepped per epoch only");
  if (schedule.observe && length > 0) arguments.refuse("it takes no warm-up");
  schedule = withWarmUp(std::move(schedule), length, start);
  schedule.per_step = per_step;
  schedule.text = text;
  if (fault("schedule_late") && schedule.rate) {
    schedule.rate = [rate = schedule.rate](double base, int64_t t) {
      return rate(base, std::max<int64_t>(t - 1, 0));
    };
  }
  return schedule;
}

}  // namespace chorus
