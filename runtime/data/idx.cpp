#include <bit>
#include <fstream>

#include "chorus/diagnostics.h"
#include "runtime/data/formats.h"

namespace chorus {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Refused(error("the IDX file " + what, Place{path}));
}

at::ScalarType typeOf(const std::string& path, uint8_t code) {
  switch (code) {
    case 0x08:
      return at::kByte;
    case 0x09:
      return at::kChar;
    case 0x0B:
      return at::kShort;
    case 0x0C:
      return at::kInt;
    case 0x0D:
      return at::kFloat;
    case 0x0E:
      return at::kDouble;
    default:
      refuse(path, "has an unknown element type " + std::to_string(code));
  }
}

}  // namespace

bool isIdx(const std::string& head) {
  return head.size() >= 4 && head[0] == 0 && head[1] == 0 && head[2] >= 0x08 && head[2] <= 0x0E &&
         head[3] >= 1 && head[3] <= 8;
}

at::Tensor readIdx(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const size_t rank = byte(3), header = 4 + 4 * rank;
  if (bytes.size() < header) refuse(path, "is cut off in its header");
  const at::ScalarType dtype = typeOf(path, byte(2));
  const size_t width = c10::elementSize(dtype);
  std::vector<int64_t> sizes;
  size_t count = 1;
  for (size_t d = 0; d < rank; ++d) {
    size_t size = 0;
    for (size_t i = 0; i < 4; ++i) size = size << 8 | byte(4 + 4 * d + i);
    sizes.push_back(static_cast<int64_t>(size));
    if (size > bytes.size()) refuse(path, "claims more elements than it has");
    count *= size;
    if (count > bytes.size()) refuse(path, "claims more elements than it has");
  }
  if (bytes.size() != header + count * width) {
    refuse(path, "has " + std::to_string(bytes.size() - header) + " bytes of data, but needs " +
                     std::to_string(count * width));
  }
  at::Tensor array = at::empty(sizes, at::TensorOptions(dtype));
  auto* out = static_cast<char*>(array.data_ptr());
  static_assert(std::endian::native == std::endian::little);
  for (size_t i = 0; i < count; ++i) {
    for (size_t b = 0; b < width; ++b) {
      out[i * width + b] = bytes[header + i * width + (width - 1 - b)];  // stored big-endian
    }
  }
  if (dtype != at::kByte || rank < 2) return array;
  const at::Tensor shares = array.to(at::kFloat).div_(255);
  return rank == 3 ? shares.unsqueeze(1) : shares;  // [N,H,W] -> [N,1,H,W]
}

}  // namespace chorus
