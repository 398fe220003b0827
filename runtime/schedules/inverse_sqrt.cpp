#include <cmath>

#include "chorus/schedule.h"

namespace chorus::schedules {

ScheduleDefinition inverse_sqrt() {
  return {"inverse_sqrt",
          "up over warmup_steps counts, then with the inverse square root",
          {"warmup_steps"},
          [](const ScheduleArguments& a) {
            Schedule s;
            const auto steps = static_cast<double>(a.count("warmup_steps", 1));
            s.rate = [=](double base, int64_t t) {
              const double at = static_cast<double>(t) + 1;
              return base * std::min(at / steps, std::sqrt(steps / at));
            };
            return s;
          }};
}

}  // namespace chorus::schedules
