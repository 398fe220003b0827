// "parameter", "buffer" or "constant".
#pragma once

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

}  // namespace chorus
