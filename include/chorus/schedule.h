// Learning rate schedules: one file of runtime/schedules/ each, defining one function named after
// it that returns its definition. Names and arguments are those of torch.optim.lr_scheduler.
//
//     --lr-schedule cosine:T_max=50            stepped at the end of each epoch
//     --lr-schedule one_cycle@step:max_lr=0.1,total_steps=900
//     --lr-schedule "step:step_size=10;step:step_size=20;constant"    one per member
//     --lr-schedule cosine:T_max=50,warmup=5,warmup_start=0.1         5 counts of warm-up in front
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace chorus {

/// What reduce_on_plateau remembers of one member.
struct PlateauState {
  std::optional<double> best;
  int64_t bad = 0, cooldown = 0;
  std::vector<double> rates;  ///< now, per parameter group; empty: the base rates
};

/// One member's schedule. Count 0 is the first epoch (or step).
struct Schedule {
  /// The rate at count t, of a parameter group whose rate is `base`.
  std::function<double(double base, int64_t t)> rate;
  /// The momentum (or beta1) at count t; empty where the schedule leaves it alone.
  std::function<double(int64_t t)> momentum;
  /// Moves `state.rates` by the monitored value of an epoch; then `rate` is not asked.
  std::function<void(PlateauState& state, double value, bool maximised)> observe;
  bool per_step = false;
  std::string text;  ///< as the user wrote it
  std::string file;  ///< that its numbers are read from, or ""
};

/// Arguments of one schedule as text; a list has several entries.
class ScheduleArguments {
 public:
  ScheduleArguments(std::string schedule, std::map<std::string, std::vector<std::string>> values)
      : schedule_(std::move(schedule)), values_(std::move(values)) {}
  bool has(const std::string& name) const { return values_.count(name) > 0; }
  /// Throw Refused (error) naming schedule and argument: missing without a default, no number.
  double number(const std::string& name, std::optional<double> fallback = std::nullopt) const;
  int64_t integer(const std::string& name, std::optional<int64_t> fallback = std::nullopt) const;
  /// At least 1.
  int64_t count(const std::string& name, std::optional<int64_t> fallback = std::nullopt) const;
  std::vector<double> numbers(const std::string& name) const;
  std::string word(const std::string& name, const std::string& fallback,
                   const std::vector<std::string>& allowed) const;
  bool flag(const std::string& name, bool fallback) const;
  std::string text(const std::string& name) const;
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const std::vector<std::string>* find(const std::string& name) const;
  std::string schedule_;
  std::map<std::string, std::vector<std::string>> values_;
};

struct ScheduleDefinition {
  std::string name;
  std::string summary;
  std::vector<std::string> arguments;
  std::function<Schedule(const ScheduleArguments&)> build;
};

const std::vector<ScheduleDefinition>& allSchedules();

/// "NAME[@step]:ARG=V,..."; every schedule also takes warmup and warmup_start. Throws Refused:
/// usage for unknown names with the nearest, error for values.
Schedule parseSchedule(const std::string& text);

}  // namespace chorus
