// Walks a pickle without executing it. LibTorch's unpickler trusts its input: it calls by index,
// aliases by index, and believes the number of elements that a tensor claims; so all of that is
// verified here first.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "chorus/scan.h"

namespace chorus::scan {

struct PickleContext {
  std::string path;    ///< of the archive, for messages
  std::string record;  ///< "data.pkl"
  ScanLimits limits;
  /// True for the qualified name of a class that the archive's code defines.
  std::function<bool(const std::string&)> is_class;
  /// Checks a type as written in code, e.g. "Dict[str, List[int]]"; throws Refused.
  std::function<void(const std::string&)> check_type;
  /// Bytes of the storage record with this key; nullopt where there is none.
  std::function<std::optional<uint64_t>(const std::string&)> storage_bytes;
  /// Source positions (debug_pkl): no classes, no tensors; indices into their string table are
  /// verified.
  bool debug = false;
  /// Example inputs are saved without their values: an empty storage record is in order.
  bool values_dropped = false;
};

/// Throws Refused for: opcodes that TorchScript archives do not use, globals outside the list,
/// calls of anything else, cycles, nesting over the limit, storages larger than their records,
/// trailing or missing bytes.
void scanPickle(const std::string& bytes, const PickleContext& context);

/// Whether a pickle that is not part of a TorchScript archive holds instances of classes (a whole
/// nn.Module) rather than plain containers of tensors (a state dict). For the wording of a message
/// only.
bool pickleHoldsObjects(const std::string& bytes);

}  // namespace chorus::scan
