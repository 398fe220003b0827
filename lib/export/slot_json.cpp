#include "lib/export/slot_json.h"

#include "lib/support/role_name.h"

namespace chorus {

using nlohmann::json;

json modulesJson(const std::vector<ModuleRecord>& modules) {
  json list = json::array();
  for (const ModuleRecord& record : modules)
    list.push_back(json::array({record.path, record.type}));
  return list;
}

std::vector<ModuleRecord> modulesFrom(const json& list) {
  std::vector<ModuleRecord> modules;
  for (const json& record : list)
    modules.push_back({record.at(0).get<std::string>(), record.at(1).get<std::string>()});
  return modules;
}

json slotJson(const TensorSlot& slot) {
  return {{"name", slot.name},
          {"aliases", slot.aliases},
          {"role", roleName(slot.role)},
          {"requires_grad", slot.requires_grad}};
}

TensorSlot slotFrom(const json& value) {
  TensorSlot slot;
  slot.name = value.at("name").get<std::string>();
  slot.aliases = value.at("aliases").get<std::vector<std::string>>();
  const auto role = roleFromName(value.at("role").get<std::string>());
  if (!role) throw std::runtime_error("an unknown role");
  slot.role = *role;
  slot.requires_grad = value.at("requires_grad").get<bool>();
  return slot;
}

}  // namespace chorus
