#include <cmath>

#include "chorus/schedule.h"

namespace chorus::schedules {

ScheduleDefinition step() {
  return {"step",
          "times gamma every step_size counts",
          {"step_size", "gamma"},
          [](const ScheduleArguments& a) {
            Schedule s;
            const int64_t size = a.count("step_size");
            const double gamma = a.number("gamma", 0.1);
            s.rate = [=](double base, int64_t t) {
              return base * std::pow(gamma, static_cast<double>(t / size));
            };
            return s;
          }};
}

}  // namespace chorus::schedules
