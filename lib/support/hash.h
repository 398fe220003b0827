// Hashes that are equal on every machine and in every process: no pointers, no std::hash. 64 bits,
// for telling structures apart and deriving seeds; not against an adversary.
#pragma once

#include <ATen/core/Tensor.h>

#include <bit>
#include <cstdint>
#include <string_view>

namespace chorus {

/// One word into a running hash; the order of the words matters.
inline uint64_t mixHash(uint64_t hash, uint64_t word) {
  uint64_t x = (std::rotl(hash, 23) + 0x9e3779b97f4a7c15) ^ word;
  x *= 0xff51afd7ed558ccd;
  x ^= x >> 32;
  x *= 0xc4ceb9fe1a85ec53;
  return x ^ (x >> 29);
}

/// The bytes as little-endian words, the last one filled up with zeros, and their count.
uint64_t hashBytes(const void* data, size_t size);
uint64_t hashText(std::string_view text);

/// Of dtype, sizes and elements in logical order; strides, storage and device do not matter. -0.0
/// differs from 0.0. Dense tensors only (LibTorch throws on others).
uint64_t hashTensor(const at::Tensor& tensor);

}  // namespace chorus
