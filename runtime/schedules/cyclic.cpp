#include <cmath>

#include "chorus/schedule.h"

namespace chorus::schedules {
namespace {

struct Cycle {
  double up, total;
  std::string mode;
  double gamma;

  /// Height above the base, of 1.
  double at(int64_t count) const {
    const auto t = static_cast<double>(count);
    const double cycle = std::floor(1 + t / total);
    const double x = 1 + t / total - cycle, ratio = up / total;
    const double height = x <= ratio ? x / ratio : (x - 1) / (ratio - 1);
    if (mode == "triangular2") return height / std::pow(2.0, cycle - 1);
    return mode == "exp_range" ? height * std::pow(gamma, t) : height;
  }
};

}  // namespace

ScheduleDefinition cyclic() {
  return {
      "cyclic",
      "up and down between base_lr and max_lr",
      {"base_lr", "max_lr", "step_size_up", "step_size_down", "mode", "gamma", "cycle_momentum",
       "base_momentum", "max_momentum"},
      [](const ScheduleArguments& a) {
        Schedule s;
        const int64_t up = a.count("step_size_up", 2000), down = a.count("step_size_down", up);
        const Cycle cycle{static_cast<double>(up), static_cast<double>(up + down),
                          a.word("mode", "triangular", {"triangular", "triangular2", "exp_range"}),
                          a.number("gamma", 1.0)};
        const double low = a.number("base_lr"), high = a.number("max_lr");
        s.rate = [=](double, int64_t t) { return low + (high - low) * cycle.at(t); };
        if (!a.flag("cycle_momentum", true)) return s;
        const double least = a.number("base_momentum", 0.8), most = a.number("max_momentum", 0.9);
        s.momentum = [=](int64_t t) { return most - (most - least) * cycle.at(t); };
        return s;
      }};
}

}  // namespace chorus::schedules
