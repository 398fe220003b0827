#include <cmath>
#include <optional>
#include <string>

#include "chorus/schedule.h"

namespace chorus::schedules {
namespace {

struct Plateau {
  std::string mode;
  bool relative;
  double factor, threshold, least, eps;
  int64_t patience, cooldown;

  bool better(double value, const std::optional<double>& best, bool maximised) const {
    const bool most = mode == "auto" ? maximised : mode == "max";
    // As torch, which begins with an infinite best: a NaN is never better.
    if (!best) return most ? value > -HUGE_VAL : value < HUGE_VAL;
    // As torch: a negative best makes a relative gap negative.
    const double gap = relative ? *best * threshold : threshold;
    return most ? value > *best + gap : value < *best - gap;
  }

  void observe(PlateauState& state, double value, bool maximised) const {
    if (better(value, state.best, maximised)) {
      state.best = value;
      state.bad = 0;
    } else {
      ++state.bad;
    }
    if (state.cooldown > 0) {
      --state.cooldown;
      state.bad = 0;
    }
    if (state.bad <= patience) return;
    for (double& rate : state.rates) {
      const double lower = std::max(rate * factor, least);
      if (rate - lower > eps) rate = lower;
    }
    state.cooldown = cooldown;
    state.bad = 0;
  }
};

}  // namespace

ScheduleDefinition reduce_on_plateau() {
  return {
      "reduce_on_plateau",
      "times factor when the monitored value has not improved for patience epochs",
      {"mode", "factor", "patience", "threshold", "threshold_mode", "cooldown", "min_lr", "eps"},
      [](const ScheduleArguments& a) {
        Schedule s;
        const Plateau plateau{a.word("mode", "auto", {"auto", "min", "max"}),
                              a.word("threshold_mode", "rel", {"rel", "abs"}) == "rel",
                              a.number("factor", 0.1),
                              a.number("threshold", 1e-4),
                              a.number("min_lr", 0.0),
                              a.number("eps", 1e-8),
                              a.integer("patience", 10),
                              a.integer("cooldown", 0)};
        if (plateau.factor >= 1) a.refuse("'factor' has to be below 1");
        s.observe = [=](PlateauState& state, double value, bool maximised) {
          plateau.observe(state, value, maximised);
        };
        return s;
      }};
}

}  // namespace chorus::schedules
