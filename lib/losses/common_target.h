// What several losses that see the same target take in common.
#pragma once

#include <string>

#include "chorus/loss.h"

namespace chorus::losses {

/// One loss: its text, and the target it takes.
struct Taker {
  std::string text;  ///< e.g. "0.4*mse@1"
  TargetRule rule;
};

/// The sizes of a target that `rule` allows, of class numbers or of floating numbers; empty where
/// they are not known.
std::vector<std::optional<int64_t>> targetSizes(const TargetRule& rule, bool class_numbers);

/// The targets that both take. Throws Refused (error) where there are none, naming both.
TargetRule commonTarget(const Taker& first, const Taker& second);

}  // namespace chorus::losses
