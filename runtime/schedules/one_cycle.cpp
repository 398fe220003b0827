#include <cmath>

#include "chorus/schedule.h"

namespace chorus::schedules {
namespace {

struct Phase {
  double end;           ///< count
  double from, to;      ///< rate
  double m_from, m_to;  ///< momentum
};

double between(bool cosine, double from, double to, double share) {
  if (!cosine) return from + (to - from) * share;
  return to + (from - to) / 2 * (1 + std::cos(M_PI * share));
}

std::vector<Phase> phasesOf(const ScheduleArguments& a, double total) {
  const double top = a.number("max_lr"), pct = a.number("pct_start", 0.3);
  const double start = top / a.number("div_factor", 25);
  const double last = start / a.number("final_div_factor", 1e4);
  const double low = a.number("base_momentum", 0.85), high = a.number("max_momentum", 0.95);
  if (pct < 0 || pct > 1) a.refuse("'pct_start' is not between 0 and 1");
  if (a.flag("three_phase", false)) {
    return {{pct * total - 1, start, top, high, low},
            {2 * pct * total - 2, top, start, low, high},
            {total - 1, start, last, high, high}};
  }
  return {{pct * total - 1, start, top, high, low}, {total - 1, top, last, low, high}};
}

/// The phase that count t is in, and how much of it has passed.
std::pair<Phase, double> phaseAt(const std::vector<Phase>& phases, double t) {
  double begin = 0;
  for (size_t i = 0; i < phases.size(); ++i) {
    if (t <= phases[i].end || i + 1 == phases.size()) {
      const double length = phases[i].end - begin;  // 0 of the last one where pct_start is 1
      return {phases[i], length > 0 ? (std::min(t, phases[i].end) - begin) / length : 1.0};
    }
    begin = phases[i].end;
  }
  return {phases.back(), 1.0};
}

}  // namespace

ScheduleDefinition one_cycle() {
  return {"one_cycle",
          "one cycle of rate and momentum over total_steps counts; then the last values",
          {"max_lr", "total_steps", "pct_start", "anneal_strategy", "cycle_momentum",
           "base_momentum", "max_momentum", "div_factor", "final_div_factor", "three_phase"},
          [](const ScheduleArguments& a) {
            Schedule s;
            const auto phases = phasesOf(a, static_cast<double>(a.count("total_steps")));
            const bool cosine = a.word("anneal_strategy", "cos", {"cos", "linear"}) == "cos";
            s.rate = [=](double, int64_t t) {
              const auto [phase, share] = phaseAt(phases, static_cast<double>(t));
              return between(cosine, phase.from, phase.to, share);
            };
            if (!a.flag("cycle_momentum", true)) return s;
            s.momentum = [=](int64_t t) {
              const auto [phase, share] = phaseAt(phases, static_cast<double>(t));
              return between(cosine, phase.m_from, phase.m_to, share);
            };
            return s;
          }};
}

}  // namespace chorus::schedules
