// Numbers of the graphs that differ between members (FusedModel::varying).
#pragma once

#include <string>
#include <vector>

#include "chorus/fused_model.h"

namespace chorus {

/// From a checked certificate whose first member is `first`. Places whose values are the same K
/// numbers share one entry.
std::vector<VaryingNumber> varyingNumbers(const Certificate& certificate, const Member& first);

/// The node of `graph` (the prototype's, or a copy) at a place. Throws Refused (internal) where the
/// graph has another op there.
Node* varyingNode(const Graph& graph, const VaryingNumber::Place& place);

/// Member k's own graph: the literals at the places are member k's numbers.
void writeNumbers(Graph& graph, const std::vector<VaryingNumber>& numbers, bool eval, size_t k);

/// Appends one input per entry of `model.varying` to `graph`, 0-d, and rewrites the ops that read
/// it (lib/batching/varying.h).
void liftNumbers(Graph& graph, const FusedModel& model, bool eval, bool counter_based_random);

/// "varying_I", where submodule chorus keeps entry I.
std::string varyingName(size_t i);

/// "dropout 'p'" of the first place.
std::string varyingTitle(const FusedModel& model, const VaryingNumber& number);

}  // namespace chorus
