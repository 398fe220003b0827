#include <gtest/gtest.h>

#include "runtime/gradients.h"

namespace chorus {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// torch.nn.utils.clip_grad_norm_ of one member's gradients, as PyTorch's documentation defines it.
void clipAlone(std::vector<at::Tensor>& gradients, double limit) {
  double squares = 0;
  for (const at::Tensor& g : gradients) squares += g.to(at::kDouble).square().sum().item<double>();
  const double scale = std::min(1.0, limit / (std::sqrt(squares) + 1e-6));
  for (at::Tensor& g : gradients) g = g * scale;
}

std::vector<at::Tensor> someGradients() {
  return {at::arange(27, at::kDouble).view({3, 3, 3}) - 9, at::empty({0}),
          at::arange(6, at::kDouble).view({3, 2})};
}

TEST(ClipNorm, EachMemberByItsOwnNorm) {
  const std::vector<double> limits = {0.5, kInf, 20.0};
  std::vector<at::Tensor> clipped = someGradients();
  clipNorm(clipped, limits);
  for (int64_t k = 0; k < 3; ++k) {
    std::vector<at::Tensor> alone = {someGradients()[0][k], someGradients()[2][k]};
    clipAlone(alone, limits[static_cast<size_t>(k)]);
    EXPECT_TRUE(at::allclose(clipped[0][k], alone[0], 1e-12, 0)) << k;
    EXPECT_TRUE(at::allclose(clipped[2][k], alone[1], 1e-12, 0)) << k;
  }
  EXPECT_EQ(clipped[1].numel(), 0);
}

TEST(ClipValue, EachMemberByItsOwnLimit) {
  std::vector<at::Tensor> clipped = someGradients();
  clipValue(clipped, {1.0, 2.0, kInf});
  const at::Tensor before = someGradients()[0];
  EXPECT_TRUE(at::equal(clipped[0][0], before[0].clamp(-1, 1)));
  EXPECT_TRUE(at::equal(clipped[0][1], before[1].clamp(-2, 2)));
  EXPECT_TRUE(at::equal(clipped[0][2], before[2]));
}

TEST(Accumulate, IsTheMeanOfItsParts) {
  std::vector<at::Tensor> total;
  const std::vector<at::Tensor> one = {at::ones({3, 3})}, five = {at::full({3, 3}, 5.0)};
  accumulateGradients(total, one, 2);
  accumulateGradients(total, five, 2);
  EXPECT_TRUE(at::equal(total[0], at::full({3, 3}, 3.0)));
  EXPECT_TRUE(at::equal(one[0], at::ones({3, 3})));
}

}  // namespace
}  // namespace chorus
