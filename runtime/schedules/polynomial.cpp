#include <cmath>

#include "chorus/schedule.h"

namespace chorus::schedules {

ScheduleDefinition polynomial() {
  return {"polynomial",
          "to zero over total_iters counts, as a polynomial of this power",
          {"total_iters", "power"},
          [](const ScheduleArguments& a) {
            Schedule s;
            const int64_t length = a.count("total_iters", 5);
            const double power = a.number("power", 1.0);
            s.rate = [=](double base, int64_t t) {
              const double share =
                  static_cast<double>(std::min(t, length)) / static_cast<double>(length);
              return base * std::pow(1 - share, power);
            };
            return s;
          }};
}

}  // namespace chorus::schedules
