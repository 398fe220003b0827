#include <cmath>

#include "chorus/schedule.h"

namespace chorus::schedules {

ScheduleDefinition cosine_warm_restarts() {
  return {"cosine_warm_restarts",
          "cosine periods of T_0, T_0 * T_mult, ... counts",
          {"T_0", "T_mult", "eta_min"},
          [](const ScheduleArguments& a) {
            Schedule s;
            const int64_t first = a.count("T_0"), grow = a.count("T_mult", 1);
            const double least = a.number("eta_min", 0.0);
            s.rate = [=](double base, int64_t t) {
              int64_t length = first, at = t;
              while (at >= length) {
                at -= length;
                length *= grow;
              }
              const double share = static_cast<double>(at) / static_cast<double>(length);
              return least + (base - least) * (1 + std::cos(M_PI * share)) / 2;
            };
            return s;
          }};
}

}  // namespace chorus::schedules
