#pragma once

#include <string>

namespace chorus {

/// Names of slots that hold members' own tensors, packed into rows, begin with it; no module of a
/// user can be called so.
inline const std::string kPackedPrefix = "chorus::own.";

inline bool isPackedName(const std::string& name) { return name.starts_with(kPackedPrefix); }

}  // namespace chorus
