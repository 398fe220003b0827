// The plan: what becomes of each op, and what the fused model holds.
#pragma once

#include "chorus/batch_graph.h"
#include "chorus/fused_model.h"

namespace chorus {

/// For people.
std::string planText(const FusedModel& model, const std::vector<Decision>& decisions);
/// For machines.
nlohmann::json planJson(const FusedModel& model, const std::vector<Decision>& decisions);

}  // namespace chorus
