// The Python names that the pickles of TorchScript archives need.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace chorus::scan {

/// Functions that may be called, e.g. "torch._utils._rebuild_tensor_v2".
bool isPickleFunction(std::string_view name);

/// Bytes of an element of e.g. "torch.FloatStorage"; nullopt for other names.
std::optional<uint64_t> storageElementBytes(std::string_view name);

}  // namespace chorus::scan
