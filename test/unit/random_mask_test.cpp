#include <gtest/gtest.h>

#include "chorus/random.h"

namespace chorus {
namespace {

at::Tensor draw(std::vector<uint64_t> seeds, std::vector<int64_t> steps, at::IntArrayRef sizes,
                double p, int64_t node = 0, at::ScalarType dtype = at::kFloat) {
  RandomContext context{9, std::move(seeds), std::move(steps)};
  RandomScope scope(context);
  return keepMask(at::zeros(sizes, dtype), p, node, true);
}

TEST(KeepMask, SliceIsWhatTheMemberAloneDraws) {
  const at::Tensor three = draw({5, 6, 7}, {4, 4, 2}, {3, 3, 3, 5}, 0.5);
  const at::Tensor last = draw({7}, {2}, {1, 3, 3, 5}, 0.5);
  EXPECT_TRUE(at::equal(three[2], last[0]));
  RandomContext context{9, {7}, {2}};
  RandomScope scope(context);
  EXPECT_TRUE(at::equal(keepMask(at::zeros({3, 3, 5}), 0.5, 0, false), last[0]));
}

TEST(KeepMask, DiffersByMemberStepAndNode) {
  const at::Tensor mask = draw({5, 6, 5}, {0, 0, 1}, {3, 64}, 0.5);
  EXPECT_FALSE(at::equal(mask[0], mask[1]));
  EXPECT_FALSE(at::equal(mask[0], mask[2]));
  EXPECT_FALSE(at::equal(mask[0], draw({5}, {0}, {1, 64}, 0.5, 1)[0]));
}

TEST(KeepMask, EqualSeedsGiveEqualDraws) {
  const at::Tensor mask = draw({5, 5}, {3, 3}, {2, 64}, 0.5);
  EXPECT_TRUE(at::equal(mask[0], mask[1]));
}

TEST(KeepMask, ValuesAndRate) {
  const at::Tensor mask = draw({1, 2}, {0, 0}, {2, 50000}, 0.2);
  const at::Tensor dropped = mask == 0;
  EXPECT_TRUE((dropped | (mask == 1.25f)).all().item<bool>());
  EXPECT_NEAR(dropped.to(at::kDouble).mean().item<double>(), 0.2, 0.005);
}

TEST(KeepMask, EndsOfTheRange) {
  EXPECT_TRUE(at::equal(draw({1}, {0}, {1, 1000}, 0.0), at::ones({1, 1000})));
  EXPECT_TRUE(at::equal(draw({1}, {0}, {1, 1000}, 1.0), at::zeros({1, 1000})));
  EXPECT_EQ(draw({1}, {0}, {1, 0}, 0.5).numel(), 0);
}

TEST(KeepMask, FollowsTheDtypeAndNotTheStrides) {
  const at::Tensor wide = draw({3}, {0}, {1, 4, 6}, 0.5);
  for (at::ScalarType dtype : {at::kDouble, at::kHalf, at::kBFloat16}) {
    const at::Tensor mask = draw({3}, {0}, {1, 4, 6}, 0.5, 0, dtype);
    EXPECT_EQ(mask.scalar_type(), dtype);
    EXPECT_TRUE(at::equal(mask.to(at::kFloat), wide));
  }
  RandomContext context{9, {3}, {0}};
  RandomScope scope(context);
  EXPECT_TRUE(at::equal(keepMask(at::zeros({1, 6, 4}).transpose(1, 2), 0.5, 0, true), wide));
}

}  // namespace
}  // namespace chorus
