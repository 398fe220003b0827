// The hashes of certificate.h, written a second time on purpose: the prover's own are not to be
// trusted here.
#include <bit>
#include <cstring>

#include "lib/equivalence/checker/tables.h"

namespace chorus::checker {
namespace {

uint64_t hashBytes(const char* bytes, size_t size) {
  uint64_t hash = 0;
  for (size_t at = 0; at < size; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min<size_t>(8, size - at));
    hash = mix(hash, word);
  }
  return mix(hash, size);
}

}  // namespace

uint64_t mix(uint64_t hash, uint64_t word) {
  uint64_t x = (std::rotl(hash, 23) + 0x9e3779b97f4a7c15) ^ word;
  x *= 0xff51afd7ed558ccd;
  x ^= x >> 32;
  x *= 0xc4ceb9fe1a85ec53;
  return x ^ (x >> 29);
}

uint64_t hashOf(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous();
  uint64_t hash = mix(0, static_cast<uint64_t>(plain.scalar_type()));
  for (const int64_t size : plain.sizes()) hash = mix(hash, static_cast<uint64_t>(size));
  return mix(hash, hashBytes(static_cast<const char*>(plain.const_data_ptr()), plain.nbytes()));
}

}  // namespace chorus::checker
