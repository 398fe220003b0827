#include "runtime/data/npy.h"

#include <ATen/ATen.h>

#include <bit>
#include <cstring>

#include "chorus/diagnostics.h"

namespace chorus {
namespace {

constexpr uint64_t kMaxHeader = 1 << 16;
const std::string kMagic = "\x93NUMPY";

Refused bad(const NpySource& source, const std::string& why) {
  return Refused(error("array '" + source.name + "' " + why, Place{source.path, "", "", ""}));
}

std::string shapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? "," : "") + std::to_string(size);
  return text + "]";
}

// As stored: unsigned numbers that LibTorch computes little with are read as signed ones of their
// width.
at::ScalarType storedType(const NpyHeader& header) {
  switch (header.kind) {
    case 'f':
      return header.width == 2 ? at::kHalf : header.width == 4 ? at::kFloat : at::kDouble;
    case 'c':
      return header.width == 8 ? at::kComplexFloat : at::kComplexDouble;
    case 'b':
      return at::kBool;
    default:
      break;
  }
  if (header.width == 1) return header.kind == 'u' ? at::kByte : at::kChar;
  return header.width == 2 ? at::kShort : header.width == 4 ? at::kInt : at::kLong;
}

// The number of bytes of the elements, compared with what is there before anything is allocated.
void checkSize(const NpyHeader& header, const NpySource& source, uint64_t header_bytes) {
  const uint64_t present = source.size - header_bytes;
  uint64_t bytes = static_cast<uint64_t>(header.width);
  bool empty = false;
  for (const int64_t size : header.shape) {
    empty |= size == 0;
    if (size > 0 && __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      throw bad(source,
                "claims the shape " + shapeText(header.shape) + ", which no machine can hold");
    }
  }
  if (empty) throw bad(source, "is empty: its shape is " + shapeText(header.shape));
  if (bytes != present) {
    throw bad(source, std::string(bytes > present ? "is truncated" : "has bytes left over") +
                          ": its shape " + shapeText(header.shape) + " takes " +
                          std::to_string(bytes) + " bytes, the file has " +
                          std::to_string(present));
  }
}

// Complex numbers are two numbers each.
void swapBytes(const at::Tensor& values, int64_t width) {
  auto* bytes = static_cast<char*>(values.data_ptr());
  for (char* end = bytes + values.nbytes(); bytes < end; bytes += width)
    std::reverse(bytes, bytes + width);
}

void checkBooleans(const at::Tensor& values, const NpySource& source) {
  const auto* bytes = static_cast<const unsigned char*>(values.data_ptr());
  const bool clean =
      std::all_of(bytes, bytes + values.numel(), [](unsigned char byte) { return byte < 2; });
  if (!clean) throw bad(source, "has dtype bool, but bytes other than 0 and 1");
}

// u2 -> i32, u4 -> i64, u8 -> i64 where the values fit.
at::Tensor widen(const at::Tensor& values, const NpyHeader& header, const NpySource& source) {
  if (header.kind != 'u' || header.width == 1) return values;
  if (header.width == 2) return values.to(at::kInt).bitwise_and(0xffff);
  if (header.width == 4) return values.to(at::kLong).bitwise_and(0xffffffffLL);
  if (values.min().item<int64_t>() < 0)
    throw bad(source, "has dtype u8 and values that do not fit into i64");
  return values;
}

// [A,B,C] -> [C,B,A]
at::Tensor reversed(const at::Tensor& values) {
  std::vector<int64_t> dims;
  for (int64_t dim = values.dim() - 1; dim >= 0; --dim) dims.push_back(dim);
  return values.permute(dims).contiguous();
}

}  // namespace

at::Tensor readNpy(const NpySource& source) {
  char start[8];
  if (source.size < sizeof(start) + 4) throw bad(source, "is truncated: its header is missing");
  source.read(start, sizeof(start));
  if (std::string(start, 6) != kMagic) throw bad(source, "is no NumPy array");
  const int version = start[6];
  if (version < 1 || version > 3)
    throw bad(source, "has the unknown .npy format " + std::to_string(version));
  unsigned char length[4] = {0, 0, 0, 0};
  const uint64_t length_bytes = version == 1 ? 2 : 4;
  source.read(length, length_bytes);
  const uint64_t text_bytes =
      length[0] | length[1] << 8 | length[2] << 16 | static_cast<uint64_t>(length[3]) << 24;
  const uint64_t header_bytes = sizeof(start) + length_bytes + text_bytes;
  if (text_bytes > kMaxHeader) throw bad(source, "has an ill-formed header");
  if (header_bytes > source.size) throw bad(source, "is truncated: its header is cut");
  std::string text(text_bytes, '\0');
  source.read(text.data(), text.size());
  NpyHeader header = parseNpyHeader(text, source);
  checkSize(header, source, header_bytes);

  // Fortran order is C order of the reversed shape.
  if (header.fortran_order) std::reverse(header.shape.begin(), header.shape.end());
  at::Tensor values = at::empty(header.shape, storedType(header));
  source.read(values.data_ptr(), values.nbytes());
  const bool foreign = header.order == (std::endian::native == std::endian::little ? '>' : '<');
  if (foreign) swapBytes(values, header.kind == 'c' ? header.width / 2 : header.width);
  if (header.kind == 'b') checkBooleans(values, source);
  values = widen(values, header, source);
  return header.fortran_order ? reversed(values) : values;
}

}  // namespace chorus
