// `--param-groups FILE`: parameters with hyperparameters of their own, by name.
#pragma once

#include "chorus/fused_model.h"
#include "tools/common/training_options.h"

namespace chorus {

/// The table is CSV with a header: `pattern`, then hyperparameters (`weight_decay`, `lr`, `beta1`,
/// ...).
///
///     pattern,lr,weight_decay
///     *.bias,,0
///     encoder.*,1e-4;1e-4;3e-4,0.01
///
/// A parameter takes the first row whose pattern (with * and ?) fits its name; an empty cell is the
/// optimizer's own value; one value or K between ';'. Sets the groups of `model.optimizer`, and
/// does nothing without the option. Throws Refused naming file and line.
void applyParameterGroups(const TrainingOptions& options, FusedModel& model);

}  // namespace chorus
