// "parameter", "buffer" or "constant".
#pragma once

#include <optional>
#include <string_view>

#include "chorus/member.h"

namespace chorus {

inline const char* roleName(Role role) {
  switch (role) {
    case Role::Parameter:
      return "parameter";
    case Role::Buffer:
      return "buffer";
    case Role::Constant:
      return "constant";
  }
  return "";
}

inline std::optional<Role> roleFromName(std::string_view name) {
  for (const Role role : {Role::Parameter, Role::Buffer, Role::Constant}) {
    if (name == roleName(role)) return role;
  }
  return std::nullopt;
}

}  // namespace chorus
