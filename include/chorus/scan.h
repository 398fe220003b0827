// The gate in front of LibTorch: an archive is untrusted. Unpickling it runs any `__setstate__`,
// and its code may name any registered operator, so zip, pickles and code are scanned before they
// are loaded.
#pragma once

#include <string>
#include <vector>

namespace chorus {

struct ScanLimits {
  size_t max_records = 200'000;
  size_t max_unpacked_bytes = size_t{64} << 30;
  size_t max_code_bytes = size_t{256} << 20;
  size_t max_nesting = 200;  ///< of brackets or indentation in code, of containers in pickles
  size_t max_ratio = 200;    ///< of a record's unpacked size to its packed one, from 4 MiB on
};

/// Refuses (throws Refused, error, naming `path`) anything but a TorchScript archive made of
/// modules, NamedTuples, enums, and operators of the allow-list lib/scan/allowed_operators.cpp:
/// - not a regular file, empty, not a zip (text, a pickle, a state dict: with the three lines that
/// export a model),
///   truncated, no code, other byte order, format version newer than this LibTorch reads, too many
///   or too large records, record names with `..` or absolute, compressed bombs;
/// - any `__setstate__` / `__getstate__`, any class other than modules, NamedTuples, enums;
/// - any operator not on the list, by name ("archive uses the operator 'aten::save', which ...");
/// - any pickle global outside the list that TorchScript archives need.
void scanArchive(const std::string& path, const ScanLimits& limits = {});

/// True if the operator (e.g. "aten::conv2d", without overload) may occur in an archive.
bool isAllowedOperator(const std::string& qualified_name);

}  // namespace chorus
