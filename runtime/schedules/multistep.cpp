#include <cmath>

#include "chorus/schedule.h"

namespace chorus::schedules {

ScheduleDefinition multistep() {
  return {"multistep",
          "times gamma at each of the milestones",
          {"milestones", "gamma"},
          [](const ScheduleArguments& a) {
            Schedule s;
            const std::vector<double> milestones = a.numbers("milestones");
            const double gamma = a.number("gamma", 0.1);
            s.rate = [=](double base, int64_t t) {
              double rate = base;
              for (const double at : milestones) rate *= static_cast<double>(t) >= at ? gamma : 1.0;
              return rate;
            };
            return s;
          }};
}

}  // namespace chorus::schedules
