#include "lib/support/hash.h"

#include <ATen/ATen.h>

#include <cstring>

namespace chorus {

static_assert(std::endian::native == std::endian::little,
              "hashes are defined on little-endian words");

uint64_t hashBytes(const void* data, size_t size) {
  const char* bytes = static_cast<const char*>(data);
  uint64_t hash = 0;
  for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min(sizeof(uint64_t), size - at));
    hash = mixHash(hash, word);
  }
  return mixHash(hash, size);
}

uint64_t hashText(std::string_view text) { return hashBytes(text.data(), text.size()); }

uint64_t hashTensor(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous();
  uint64_t hash = mixHash(0, static_cast<uint64_t>(plain.scalar_type()));
  for (const int64_t size : plain.sizes()) hash = mixHash(hash, static_cast<uint64_t>(size));
  return mixHash(hash, hashBytes(plain.const_data_ptr(), plain.nbytes()));
}

}  // namespace chorus
