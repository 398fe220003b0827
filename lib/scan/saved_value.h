// What torch.save wrote, as long as it is plain data: containers, numbers, text and tensors.
//
// No LibTorch unpickler is involved: the few operations that such a pickle needs are carried out
// here, none of them calls anything, and everything else is refused by name.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chorus/scan.h"

namespace chorus {

struct SavedValue;
using SavedPtr = std::shared_ptr<const SavedValue>;

struct SavedValue {
  enum class Kind { None, Bool, Integer, Number, Text, List, Tuple, Dict, Tensor };
  Kind kind = Kind::None;
  int64_t integer = 0;  ///< of a Bool too
  double number = 0;
  std::string text;
  std::vector<SavedPtr> items;  ///< of a List or Tuple
  /// Of a Dict, in the order in which they were inserted; keys are Texts, Integers or Numbers.
  std::vector<std::pair<SavedPtr, SavedPtr>> entries;
  at::Tensor tensor;  ///< contiguous, on the CPU

  bool is(Kind wanted) const { return kind == wanted; }
  /// A Bool, an Integer, a Number, or a Tensor of one element.
  bool isNumber() const;
  /// Requires isNumber.
  double toNumber() const;
  /// The value under a Text key; null where there is none.
  SavedPtr find(const std::string& key) const;
};

/// Reads a file of torch.save (the zip format, pickle protocol 2, which is its default). Throws
/// Refused (error, naming `path`): a file of another kind, classes and functions other than those
/// of tensors and dicts, by name, tensors larger than their bytes, more values than the limits.
SavedPtr readSaved(const std::string& path, const ScanLimits& limits = {});

}  // namespace chorus
