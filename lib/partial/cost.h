// Is it worth it? A step's time, roughly: a few microseconds for each op, forward and backward, and
// the copies that bring members together and apart.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "lib/partial/outline.h"

namespace chorus::partial {

/// Common ops between two places that differ which are cheaper computed apart.
struct Island {
  size_t mode = 0;
  std::set<size_t> ops;
  std::string note;
};
std::optional<Island> costlyIsland(const Outline& all, const std::vector<size_t>& members);

/// What the train graph saves and costs, in microseconds per step.
struct Balance {
  size_t common = 0;          ///< ops that compute something
  std::vector<size_t> apart;  ///< [v], the same
  double saved = 0;           ///< by running common ops once
  double spent = 0;           ///< by copies at the borders
};
Balance balanceOf(const Outline& all, const std::vector<size_t>& members);

/// Throws Refused (error) where no common op computes anything.
void requireWorthwhile(const Outline& all, const std::vector<size_t>& members);

}  // namespace chorus::partial
