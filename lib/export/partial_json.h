// "partial" of chorus.json (lib/export/fused_json.h).
#pragma once

#include <nlohmann/json.hpp>

#include "chorus/fused_model.h"

namespace chorus {

nlohmann::json partialJson(const std::vector<PartialMember>& partial);
/// Throws where it is not one entry per member of `model`, or names a slot that it does not have.
std::vector<PartialMember> partialFrom(const nlohmann::json& value, const FusedModel& model);

/// One more than the largest variant.
size_t variantsOf(const std::vector<PartialMember>& partial);

/// Throws Refused (error) where the tensors of the file are not what "partial" says.
void checkPartial(const FusedModel& model, const std::string& path);

}  // namespace chorus
