#include <cmath>

#include "chorus/schedule.h"

namespace chorus::schedules {

ScheduleDefinition constant() {
  return {"constant",
          "the rate, times factor for the first total_iters counts",
          {"factor", "total_iters"},
          [](const ScheduleArguments& a) {
            Schedule s;
            const double factor = a.number("factor", 1.0);
            const int64_t length = a.integer("total_iters", 5);
            s.rate = [=](double base, int64_t t) { return t < length ? base * factor : base; };
            return s;
          }};
}

}  // namespace chorus::schedules
