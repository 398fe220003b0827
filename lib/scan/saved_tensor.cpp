#include "lib/scan/saved_tensor.h"

#include <algorithm>
#include <map>

namespace chorus::scan {

std::optional<at::ScalarType> storageDtype(const std::string& name) {
  static const std::map<std::string, at::ScalarType> dtypes = {
      {"torch.FloatStorage", at::kFloat},
      {"torch.DoubleStorage", at::kDouble},
      {"torch.HalfStorage", at::kHalf},
      {"torch.BFloat16Storage", at::kBFloat16},
      {"torch.LongStorage", at::kLong},
      {"torch.IntStorage", at::kInt},
      {"torch.ShortStorage", at::kShort},
      {"torch.CharStorage", at::kChar},
      {"torch.ByteStorage", at::kByte},
      {"torch.BoolStorage", at::kBool},
      {"torch.ComplexFloatStorage", at::kComplexFloat},
      {"torch.ComplexDoubleStorage", at::kComplexDouble}};
  const auto found = dtypes.find(name);
  return found == dtypes.end() ? std::nullopt : std::optional(found->second);
}

at::Tensor savedTensor(const at::Tensor& storage, int64_t offset, const std::vector<int64_t>& sizes,
                       const std::vector<int64_t>& strides) {
  const int64_t elements = storage.numel();
  if (sizes.size() != strides.size() || offset < 0) return {};
  int64_t last = offset, count = 1;  // the farthest element, and how many there are
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t reach = 0;
    if (sizes[d] < 0 || strides[d] < 0) return {};
    if (__builtin_mul_overflow(count, sizes[d], &count) || count > elements) return {};
    if (__builtin_mul_overflow(std::max<int64_t>(sizes[d] - 1, 0), strides[d], &reach)) return {};
    if (__builtin_add_overflow(last, reach, &last)) return {};
  }
  if (count == 0) return at::empty(sizes, storage.options());
  if (last >= elements) return {};
  return storage.as_strided(sizes, strides, offset).clone(at::MemoryFormat::Contiguous);
}

}  // namespace chorus::scan
