// Arrays from files: NumPy's `.npz` (also compressed) and `.npy`, CSV and IDX
// (runtime/data/formats.h), recognised by their content, not their names.
//
// A file is untrusted: its header is parsed, never evaluated; what it claims is compared with the
// bytes that are there before anything is allocated; arrays of Python objects (which are pickles)
// are refused.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "chorus/diagnostics.h"

namespace chorus {

struct NamedArray {
  std::string name;  ///< the key in the `.npz`; the file's stem for a `.npy`
  at::Tensor
      values;  ///< on the CPU, contiguous in C order whatever the file's order and byte order were
};

/// All arrays of the file, in file order.
///
/// dtypes: f2 f4 f8, i1 i2 i4 i8, u1, bool, c8 c16 as they are; u2 becomes i32, u4 i64, u8 i64
/// where all values fit. Either byte order.
///
/// Throws Refused (error), naming the file and the array: not a data file, truncated, ill-formed
/// header, two arrays of one name, no elements, fewer or more bytes than the shape needs, and
/// dtypes that are not numbers (objects by name).
std::vector<NamedArray> loadArrays(const std::string& path);

/// The same, by name.
std::map<std::string, at::Tensor> readArrays(const std::string& path);

}  // namespace chorus
