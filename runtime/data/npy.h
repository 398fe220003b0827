// The `.npy` format: a header in the form of a Python dict, then the elements.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace chorus {

/// Where the bytes come from: a file or a record of an archive.
struct NpySource {
  std::string path;   ///< for messages
  std::string name;   ///< of the array
  uint64_t size = 0;  ///< bytes in all
  /// Exactly `count` bytes, or throws Refused.
  std::function<void(void* into, uint64_t count)> read;
};

/// What the header says.
struct NpyHeader {
  char order = '<';   ///< '<' little-endian, '>' big-endian, '|' neither
  char kind = 'f';    ///< f i u b c
  int64_t width = 4;  ///< bytes of an element
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

/// Parses the dict of a header, e.g. "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }".
/// Throws Refused.
NpyHeader parseNpyHeader(const std::string& text, const NpySource& source);

/// Reads the whole array.
at::Tensor readNpy(const NpySource& source);

}  // namespace chorus
