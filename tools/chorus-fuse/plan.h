// The plan: what becomes of each op, and what the fused model holds.
#pragma once

#include "chorus/batch_graph.h"
#include "chorus/fused_model.h"
#include "tools/chorus-fuse/estimate.h"

namespace chorus {

/// For people. `step`: what a training step takes, where that was asked for.
std::string planText(const FusedModel& model, const std::vector<Decision>& decisions,
                     const std::optional<Estimate>& step);
/// For machines.
nlohmann::json planJson(const FusedModel& model, const std::vector<Decision>& decisions,
                        const std::optional<Estimate>& step);

}  // namespace chorus
