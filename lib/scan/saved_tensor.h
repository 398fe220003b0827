// The tensors in a file of torch.save: their storages, and views of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

namespace chorus::scan {

/// Of "torch.FloatStorage", ...; nullopt for other names.
std::optional<at::ScalarType> storageDtype(const std::string& name);

/// The elements of `storage` [n] that the numbers describe, contiguous, as a copy. Undefined where
/// they reach outside, or name more elements than there are.
at::Tensor savedTensor(const at::Tensor& storage, int64_t offset, const std::vector<int64_t>& sizes,
                       const std::vector<int64_t>& strides);

}  // namespace chorus::scan
