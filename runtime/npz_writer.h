// NumPy's archives: what numpy.load reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace chorus {

/// Bytes of a `.npy` file, format 1.0, C order, little-endian. Throws Refused (unsupported) for
/// dtypes that NumPy does not have (bf16 is written as f32).
std::string npyBytes(const at::Tensor& tensor);

/// Writes (or overwrites) an uncompressed `.npz`; entry NAME is NAME.npy. Throws Refused (error) if
/// the disk is full.
void writeNpz(const std::string& path,
              const std::vector<std::pair<std::string, at::Tensor>>& arrays);

}  // namespace chorus
