// Myers, "An O(ND) Difference Algorithm and Its Variations", Algorithmica 1 (1986), section 4.1.
#include "lib/partial/sequence.h"

namespace chorus::partial {
namespace {

constexpr int64_t kMostDifferences = 6000;

using Pairs = std::vector<std::pair<size_t, size_t>>;

struct Signatures {
  const Sequence& a;
  const Sequence& b;
  size_t begin = 0;  ///< common at the front
  int64_t n = 0, m = 0;

  bool equal(int64_t x, int64_t y) const {
    const uint64_t mine = a.items[begin + static_cast<size_t>(x)].signature;
    return mine != 0 && mine == b.items[begin + static_cast<size_t>(y)].signature;
  }
};

/// Furthest x on each diagonal, for 0, 1, ... differences.
std::vector<std::vector<int64_t>> trace(const Signatures& s) {
  std::vector<std::vector<int64_t>> steps;
  std::vector<int64_t> furthest(static_cast<size_t>(2 * (s.n + s.m) + 3));
  const int64_t middle = s.n + s.m + 1;
  const auto at = [&](int64_t diagonal) -> int64_t& {
    return furthest[static_cast<size_t>(middle + diagonal)];
  };
  for (int64_t d = 0; d <= s.n + s.m; ++d) {
    if (d > kMostDifferences) {
      throw Refused(error("--partial: the members differ in too many places")
                        .helpWith("--group trains members apart that differ"));
    }
    // Diagonals -d-1 .. d+1, as they are before this step.
    steps.emplace_back(furthest.begin() + (middle - d - 1), furthest.begin() + (middle + d + 2));
    for (int64_t k = -d; k <= d; k += 2) {
      int64_t x = k == -d || (k != d && at(k - 1) < at(k + 1)) ? at(k + 1) : at(k - 1) + 1;
      while (x < s.n && x - k < s.m && s.equal(x, x - k)) ++x;
      at(k) = x;
      if (x >= s.n && x - k >= s.m) return steps;
    }
  }
  return steps;
}

Pairs backtrack(const Signatures& s) {
  Pairs pairs;
  const auto steps = trace(s);
  int64_t x = s.n, y = s.m;
  for (auto d = static_cast<int64_t>(steps.size()) - 1; d >= 0; --d) {
    const std::vector<int64_t>& before = steps[static_cast<size_t>(d)];
    const auto at = [&](int64_t diagonal) { return before[static_cast<size_t>(diagonal + d + 1)]; };
    const int64_t k = x - y;
    const int64_t from = k == -d || (k != d && at(k - 1) < at(k + 1)) ? k + 1 : k - 1;
    const int64_t before_x = d == 0 ? 0 : at(from), before_y = d == 0 ? 0 : before_x - from;
    // One step to the right or down, then equal ones.
    const bool down = from == k + 1;
    const int64_t first_x = d == 0 ? 0 : before_x + (down ? 0 : 1);
    while (x > first_x) {
      --x;
      --y;
      pairs.emplace_back(s.begin + static_cast<size_t>(x), s.begin + static_cast<size_t>(y));
    }
    x = before_x;
    y = before_y;
  }
  std::ranges::reverse(pairs);
  return pairs;
}

}  // namespace

Pairs longestCommon(const Sequence& a, const Sequence& b) {
  const size_t shorter = std::min(a.items.size(), b.items.size());
  const auto equal = [&](size_t i, size_t j) {
    return a.items[i].signature != 0 && a.items[i].signature == b.items[j].signature;
  };
  Pairs pairs;
  size_t front = 0, back = 0;
  while (front < shorter && equal(front, front)) {
    pairs.emplace_back(front, front);
    ++front;
  }
  while (front + back < shorter && equal(a.items.size() - 1 - back, b.items.size() - 1 - back)) {
    ++back;
  }
  const Signatures middle{a, b, front, static_cast<int64_t>(a.items.size() - front - back),
                          static_cast<int64_t>(b.items.size() - front - back)};
  for (const auto& pair : backtrack(middle)) pairs.push_back(pair);
  for (size_t i = back; i > 0; --i) pairs.emplace_back(a.items.size() - i, b.items.size() - i);
  return pairs;
}

}  // namespace chorus::partial
