// Random numbers that are a function of what they are for, not of when or with whom they are drawn.
//
// A draw of a member is a function of (run seed, member seed, step, node, element): neither K, nor
// the member's place, nor the number of threads matters. The generator is Philox4x32-10 (Salmon,
// Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11): a keyed bijection of a
// 128 bit counter.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace chorus {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

/// Ten rounds.
PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key);

/// What numbers are drawn for. Streams of different purposes are unrelated. Never renumber: results
/// depend on it.
enum class Purpose : uint32_t { Mask = 1, SharedOrder = 2, MemberOrder = 3, Split = 4, Folds = 5, Bootstrap = 6 };

/// An endless sequence of 32 bit words: word i is word i % 4 of philox({i / 4 as 64 bits, nonce},
/// key).
struct RandomStream {
  PhiloxKey key{};
  std::array<uint32_t, 2> nonce{};

  /// `step` counts a member's own micro-batches (masks) or epochs (orders); `node` is the index of
  /// the random node in the member's canonical graph.
  static RandomStream of(Purpose purpose, uint64_t run_seed, uint64_t member_seed, uint64_t step,
                         uint64_t node);
  PhiloxCounter block(uint64_t index) const;
};

/// Draws one after the other from a stream.
class RandomDraws {
 public:
  explicit RandomDraws(RandomStream stream) : stream_(stream) {}
  uint32_t next();
  /// Uniform in [0, bound), without bias. `bound` > 0.
  uint64_t below(uint64_t bound);

 private:
  RandomStream stream_;
  PhiloxCounter words_{};
  uint64_t index_ = 0;
};

/// A permutation of 0..n-1 (int64, [n]): all orders are equally likely.
at::Tensor randomOrder(int64_t n, RandomStream stream);

/// Order of the rows in an epoch, from 0. Shared by all members: a function of (seed, epoch).
at::Tensor sharedOrder(int64_t n, uint64_t run_seed, uint64_t epoch);
/// A member's own order: a function of (seed, member seed, epoch).
at::Tensor memberOrder(int64_t n, uint64_t run_seed, uint64_t member_seed, uint64_t epoch);

/// What the ops of a running step draw from; entry k belongs to member k.
struct RandomContext {
  uint64_t run_seed = 0;
  std::vector<uint64_t> member_seeds;
  std::vector<int64_t> steps;  ///< micro-batches that the member has seen before this one
  /// Per member, what it calls the i-th random node; empty: i.
  std::vector<std::vector<int64_t>> nodes;
  bool one_node = false;  ///< every node draws as node 0: to compare graphs that number them otherwise
};

/// While it lives, chorus:: random ops called on this thread draw from `context`.
class RandomScope {
 public:
  explicit RandomScope(const RandomContext& context);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  const RandomContext* outer_;
};

/// Dropout's factor: 0 with probability p, else 1/(1-p), of like's sizes and dtype, contiguous.
/// Stacked: `like` is [K,...] and slice k is drawn by member k of the context; else the context has
/// one member. Element i of a draw is element i of the member's own tensor in logical (row-major)
/// order. p = 0 gives ones, p = 1 zeros.
at::Tensor keepMask(const at::Tensor& like, double p, int64_t node, bool stacked);

/// The same draws with a probability of each member's own (p [K], or 0-d), and 1 for what is kept.
at::Tensor keptElements(const at::Tensor& like, const at::Tensor& p, int64_t node, bool stacked);

/// Uniform in [0, 1) and normal (mean 0, deviation 1) numbers of like's sizes, in its dtype where that is floating, else in
/// f32. `node`, `stacked` and the order of elements as in keepMask.
at::Tensor uniformNumbers(const at::Tensor& like, int64_t node, bool stacked);
at::Tensor gaussianNumbers(const at::Tensor& like, int64_t node, bool stacked);

/// Registers `chorus::keep_mask(Tensor like, float p, int node, bool stacked) -> Tensor` and
/// `chorus::kept(Tensor like, Tensor p, int node, bool stacked) -> Tensor`, and `uniform` and `gaussian` of
/// `(Tensor like, int node, bool stacked) -> Tensor` with TorchScript. Repeatable.
void registerRandomOps();

}  // namespace chorus
