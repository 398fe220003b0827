#include "lib/scan/pickle_names.h"

#include "lib/scan/pickle_scan.h"

#include <algorithm>
#include <array>

namespace chorus::scan {
namespace {

struct StorageType {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<StorageType, 13> kStorages = {{{"torch.FloatStorage", 4},
                                                    {"torch.DoubleStorage", 8},
                                                    {"torch.HalfStorage", 2},
                                                    {"torch.BFloat16Storage", 2},
                                                    {"torch.LongStorage", 8},
                                                    {"torch.IntStorage", 4},
                                                    {"torch.ShortStorage", 2},
                                                    {"torch.CharStorage", 1},
                                                    {"torch.ByteStorage", 1},
                                                    {"torch.BoolStorage", 1},
                                                    {"torch.ComplexHalfStorage", 4},
                                                    {"torch.ComplexFloatStorage", 8},
                                                    {"torch.ComplexDoubleStorage", 16}}};

constexpr std::array<std::string_view, 10> kFunctions = {"torch._utils._rebuild_tensor_v2",
                                                         "collections.OrderedDict",
                                                         "builtins.complex",
                                                         "torch.device",
                                                         "torch.jit._pickle.build_intlist",
                                                         "torch.jit._pickle.build_doublelist",
                                                         "torch.jit._pickle.build_boollist",
                                                         "torch.jit._pickle.build_tensorlist",
                                                         "torch.jit._pickle.build_tensor_from_id",
                                                         "torch.jit._pickle.restore_type_tag"};

}  // namespace

bool isPickleFunction(std::string_view name) {
  return std::find(kFunctions.begin(), kFunctions.end(), name) != kFunctions.end();
}

std::optional<uint64_t> storageElementBytes(std::string_view name) {
  for (const StorageType& storage : kStorages) {
    if (storage.name == name) return storage.bytes;
  }
  return std::nullopt;
}

bool pickleHoldsObjects(const std::string& bytes) {
  // GLOBAL is "c", module, newline, name, newline.
  for (size_t at = bytes.find('c'); at != std::string::npos; at = bytes.find('c', at + 1)) {
    const size_t end = bytes.find('\n', at);
    if (end == std::string::npos) break;
    const std::string module = bytes.substr(at + 1, std::min<size_t>(end - at - 1, 200));
    if (module.starts_with("torch.nn.modules") || module == "__main__") return true;
  }
  return false;
}

}  // namespace chorus::scan
