#include <cmath>

#include "chorus/schedule.h"

namespace chorus::schedules {

ScheduleDefinition cosine() {
  return {"cosine",
          "half a cosine from the rate to eta_min over T_max counts",
          {"T_max", "eta_min"},
          [](const ScheduleArguments& a) {
            Schedule s;
            const auto length = static_cast<double>(a.count("T_max"));
            const double least = a.number("eta_min", 0.0);
            s.rate = [=](double base, int64_t t) {
              return least +
                     (base - least) * (1 + std::cos(M_PI * static_cast<double>(t) / length)) / 2;
            };
            return s;
          }};
}

}  // namespace chorus::schedules
