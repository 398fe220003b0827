// Parts that chorus.json has in several places.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "chorus/member.h"

namespace chorus {

/// [[path, type], ...]
nlohmann::json modulesJson(const std::vector<ModuleRecord>& modules);
std::vector<ModuleRecord> modulesFrom(const nlohmann::json& list);

/// {name, aliases, role, requires_grad}; others may be added. Reading throws where one is missing
/// or the role is unknown.
nlohmann::json slotJson(const TensorSlot& slot);
TensorSlot slotFrom(const nlohmann::json& value);

}  // namespace chorus
