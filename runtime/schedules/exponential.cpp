#include <cmath>

#include "chorus/schedule.h"

namespace chorus::schedules {

ScheduleDefinition exponential() {
  return {"exponential", "times gamma at every count", {"gamma"}, [](const ScheduleArguments& a) {
            Schedule s;
            const double gamma = a.number("gamma");
            s.rate = [=](double base, int64_t t) {
              return base * std::pow(gamma, static_cast<double>(t));
            };
            return s;
          }};
}

}  // namespace chorus::schedules
