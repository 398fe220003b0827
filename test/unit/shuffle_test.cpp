#include <gtest/gtest.h>

#include "chorus/random.h"

namespace chorus {
namespace {

TEST(Shuffle, IsAPermutation) {
  for (int64_t n : {0, 1, 2, 100}) {
    const at::Tensor sorted = std::get<0>(sharedOrder(n, 3, 1).sort());
    EXPECT_TRUE(at::equal(sorted, at::arange(n, at::kLong))) << n;
  }
}

TEST(Shuffle, IsAFunctionOfSeedAndEpoch) {
  EXPECT_TRUE(at::equal(sharedOrder(50, 3, 1), sharedOrder(50, 3, 1)));
  EXPECT_FALSE(at::equal(sharedOrder(50, 3, 1), sharedOrder(50, 3, 2)));
  EXPECT_FALSE(at::equal(sharedOrder(50, 3, 1), sharedOrder(50, 4, 1)));
  EXPECT_FALSE(at::equal(memberOrder(50, 3, 8, 1), memberOrder(50, 3, 9, 1)));
  EXPECT_TRUE(at::equal(memberOrder(50, 3, 8, 1), memberOrder(50, 3, 8, 1)));
}

TEST(Shuffle, AllOrdersAreEquallyLikely) {
  std::map<int64_t, int> counts;
  constexpr int kEpochs = 24000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const at::Tensor order = sharedOrder(4, 0, static_cast<uint64_t>(epoch));
    const int64_t* rows = order.data_ptr<int64_t>();
    ++counts[rows[0] * 64 + rows[1] * 16 + rows[2] * 4 + rows[3]];
  }
  ASSERT_EQ(counts.size(), 24u);
  double chi2 = 0;
  for (const auto& [order, count] : counts) chi2 += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi2, 49.7);  // 23 degrees of freedom, p = 0.001
}

}  // namespace
}  // namespace chorus
