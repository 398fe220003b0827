// Philox against the known answers that its authors publish with Random123 (tests/kat_vectors).
#include <ATen/core/PhiloxRNGEngine.h>
#include <gtest/gtest.h>

#include "chorus/random.h"

namespace chorus {
namespace {

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, AgreesWithAnotherImplementation) {
  at::Philox4_32 other(0x0123456789abcdef, 77, 5);
  const PhiloxCounter ours = philox({5, 0, 77, 0}, {0x89abcdef, 0x01234567});
  for (uint32_t word : ours) EXPECT_EQ(word, other());
}

TEST(RandomStream, EveryNumberMatters) {
  const auto first = [](Purpose purpose, uint64_t run, uint64_t member, uint64_t step,
                        uint64_t node) {
    return RandomStream::of(purpose, run, member, step, node).block(0);
  };
  const PhiloxCounter base = first(Purpose::Mask, 1, 2, 3, 4);
  EXPECT_EQ(base, first(Purpose::Mask, 1, 2, 3, 4));
  EXPECT_NE(base, first(Purpose::MemberOrder, 1, 2, 3, 4));
  const uint64_t far = uint64_t{1} << 40;  // the upper halves matter too
  EXPECT_NE(base, first(Purpose::Mask, 1 + far, 2, 3, 4));
  EXPECT_NE(base, first(Purpose::Mask, 1, 2 + far, 3, 4));
  EXPECT_NE(base, first(Purpose::Mask, 1, 2, 3 + far, 4));
  EXPECT_NE(base, first(Purpose::Mask, 1, 2, 3, 4 + far));
  EXPECT_NE(base, first(Purpose::Mask, 2, 1, 3, 4));
  EXPECT_NE(base, first(Purpose::Mask, 1, 2, 4, 3));
}

TEST(RandomDraws, BoundedDrawsAreUniform) {
  RandomDraws draws(RandomStream::of(Purpose::Split, 0, 0, 0, 0));
  constexpr int kBound = 6, kDraws = 60000;
  std::array<int, kBound> counts{};
  for (int i = 0; i < kDraws; ++i) ++counts[draws.below(kBound)];
  double chi2 = 0;
  for (int count : counts) chi2 += (count - 10000.0) * (count - 10000.0) / 10000.0;
  EXPECT_LT(chi2, 20.5);  // 5 degrees of freedom, p = 0.001
  EXPECT_EQ(draws.below(1), 0u);
  const uint64_t large = (uint64_t{1} << 40) + 1;
  bool beyond_32_bits = false;
  for (int i = 0; i < 100; ++i) {
    const uint64_t value = draws.below(large);
    EXPECT_LT(value, large);
    beyond_32_bits |= value > 0xffffffff;
  }
  EXPECT_TRUE(beyond_32_bits);
}

}  // namespace
}  // namespace chorus
