#include <cmath>

#include "chorus/schedule.h"

namespace chorus::schedules {

ScheduleDefinition linear() {
  return {"linear",
          "from start_factor to end_factor over total_iters counts",
          {"start_factor", "end_factor", "total_iters"},
          [](const ScheduleArguments& a) {
            Schedule s;
            const double from = a.number("start_factor", 1.0 / 3), to = a.number("end_factor", 1.0);
            const int64_t length = a.count("total_iters", 5);
            if (from <= 0 || from > 1) a.refuse("'start_factor' is not in (0, 1]");
            if (to < 0 || to > 1) a.refuse("'end_factor' is not in [0, 1]");
            s.rate = [=](double base, int64_t t) {
              const double share =
                  static_cast<double>(std::min(t, length)) / static_cast<double>(length);
              return base * (from + (to - from) * share);
            };
            return s;
          }};
}

}  // namespace chorus::schedules
