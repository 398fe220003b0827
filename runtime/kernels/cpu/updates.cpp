#include "runtime/kernels/cpu/updates.h"

#include <cmath>
#include <cstring>

namespace chorus::kernels {
namespace {

/// Bytes ahead of the loop that are asked for: the hardware's own prefetching ends with each page.
/// Measured: Adam's loop over four arrays gains an eighth, a loop that only reads a fifth; SGD's
/// loses, and does without.
constexpr int64_t kAhead = 12 * 1024;
/// Rows shorter than this stay in the cache anyway.
constexpr int64_t kLong = 32 * 1024;

/// body(i) for i in 0..n-1; lines of `arrays` are fetched ahead where there are many.
template <typename T, typename Body, typename... Arrays>
inline __attribute__((always_inline)) void forEach(int64_t n, const Body& body,
                                                   const Arrays*... arrays) {
  constexpr int64_t line = 64 / sizeof(T), ahead = kAhead / sizeof(T);
  int64_t i = 0;
  for (; n >= kLong / static_cast<int64_t>(sizeof(T)) && i + line <= n; i += line) {
    (__builtin_prefetch(arrays + i + ahead, 1), ...);
    for (int64_t j = i; j < i + line; ++j) body(j);
  }
  for (; i < n; ++i) body(i);
}

template <typename T>
inline __attribute__((always_inline)) void adamLoop(T* __restrict p, const T* __restrict g,
                                                    T* __restrict m, T* __restrict v, int64_t n,
                                                    const AdamNumbers& a) {
  const auto step = static_cast<double>(a.step);
  const T sign = a.maximize ? T(-1) : T(1);
  const T shrink = a.decoupled ? static_cast<T>(1 - a.lr * a.weight_decay) : T(1);
  const T decay = a.decoupled ? T(0) : static_cast<T>(a.weight_decay);
  const T towards = static_cast<T>(1 - a.beta1);
  const T beta2 = static_cast<T>(a.beta2), rest2 = static_cast<T>(1 - a.beta2);
  const T rate = static_cast<T>(-(a.lr / (1 - std::pow(a.beta1, step))));
  const T correction = static_cast<T>(std::sqrt(1 - std::pow(a.beta2, step)));
  const T eps = static_cast<T>(a.eps);
  const bool near = towards < T(0.5);  // as lerp
  const T away = T(1) - towards;
  const auto move = [&](int64_t i) __attribute__((always_inline)) {
    T x = p[i] * shrink;
    const T slope = sign * g[i] + decay * x;
    const T gap = slope - m[i];
    const T mean = near ? m[i] + towards * gap : slope - gap * away;
    const T square = v[i] * beta2 + rest2 * slope * slope;
    m[i] = mean;
    v[i] = square;
    x += rate * mean / (std::sqrt(square) / correction + eps);
    p[i] = x;
  };
  forEach<T>(n, move, p, g, m, v);
}

template <typename T>
inline __attribute__((always_inline)) void sgdLoop(T* __restrict p, const T* __restrict g,
                                                   T* __restrict buffer, int64_t n,
                                                   const SgdNumbers& a) {
  const T sign = a.maximize ? T(-1) : T(1);
  const T decay = static_cast<T>(a.weight_decay), momentum = static_cast<T>(a.momentum);
  const T rest = static_cast<T>(1 - a.dampening), rate = static_cast<T>(-a.lr);
  if (a.momentum == 0) {
    for (int64_t i = 0; i < n; ++i) {
      const T slope = sign * g[i] + decay * p[i];
      buffer[i] = a.first ? slope : momentum * buffer[i] + rest * slope;
      p[i] += rate * slope;
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const T slope = sign * g[i] + decay * p[i];
    const T moved = a.first ? slope : momentum * buffer[i] + rest * slope;
    buffer[i] = moved;
    p[i] += rate * (a.nesterov ? slope + momentum * moved : moved);
  }
}

template <typename T, typename Bits>
inline __attribute__((always_inline)) bool finiteLoop(const T* x, int64_t n, Bits exponent) {
  Bits bad = 0;
  forEach<T>(
      n,
      [&](int64_t i) __attribute__((always_inline)) {
        Bits bits;
        std::memcpy(&bits, x + i, sizeof bits);
        bad |= static_cast<Bits>((bits & exponent) == exponent);
      },
      x);
  return bad == 0;
}

}  // namespace

[[gnu::target_clones("avx2", "default")]] void adam(float* p, const float* g, float* m, float* v,
                                                    int64_t n, const AdamNumbers& numbers) {
  adamLoop(p, g, m, v, n, numbers);
}
[[gnu::target_clones("avx2", "default")]] void adam(double* p, const double* g, double* m,
                                                    double* v, int64_t n,
                                                    const AdamNumbers& numbers) {
  adamLoop(p, g, m, v, n, numbers);
}
[[gnu::target_clones("avx2", "default")]] void sgd(float* p, const float* g, float* buffer,
                                                   int64_t n, const SgdNumbers& numbers) {
  sgdLoop(p, g, buffer, n, numbers);
}
[[gnu::target_clones("avx2", "default")]] void sgd(double* p, const double* g, double* buffer,
                                                   int64_t n, const SgdNumbers& numbers) {
  sgdLoop(p, g, buffer, n, numbers);
}
[[gnu::target_clones("avx2", "default")]] bool allFinite(const float* x, int64_t n) {
  return finiteLoop<float, uint32_t>(x, n, 0x7f800000u);
}
[[gnu::target_clones("avx2", "default")]] bool allFinite(const double* x, int64_t n) {
  return finiteLoop<double, uint64_t>(x, n, 0x7ff0000000000000u);
}

}  // namespace chorus::kernels
