// Faults on demand: a test that has never failed proves nothing.
#pragma once

#include <cstdlib>
#include <string_view>

namespace chorus {

/// True where CHORUS_FAULT=name is set in the environment. A build with -DCHORUS_FAULTS=OFF has
/// none of them. Each name stands at exactly one place of the code and is listed, with the test
/// that it must turn red, in test/conformance/faults.cmake or in the list of the suite that owns
/// it.
inline bool fault([[maybe_unused]] std::string_view name) {
#ifndef CHORUS_NO_FAULTS
  static const char* const wanted = std::getenv("CHORUS_FAULT");
  return wanted != nullptr && name == wanted;
#else
  return false;
#endif
}

}  // namespace chorus
