#include <gtest/gtest.h>

#include "chorus/dataset.h"
#include "chorus/random.h"

namespace chorus {
namespace {

constexpr int64_t kMembers = 3, kRows = 7;

/// Element [n] of the shared array is n, [k,n] of the stacked one 100 k + n.
Dataset numbered(bool stacked) {
  at::Tensor rows = at::arange(kRows, at::kLong);
  if (stacked) rows = rows.unsqueeze(0) + 100 * at::arange(kMembers, at::kLong).unsqueeze(1);
  Dataset data;
  data.inputs = {{"x", rows, stacked}};
  data.target = DataArray{"y", rows, stacked};
  return data;
}

at::Tensor allRows(const Batches& batches, int64_t dim) {
  std::vector<at::Tensor> parts;
  for (int64_t i = 0; i < batches.count(); ++i) parts.push_back(batches.at(i).inputs[0]);
  return at::cat(parts, dim);
}

TEST(Batches, FileOrderIsViews) {
  const Dataset data = numbered(false);
  const Batches batches(data, 3, false);
  ASSERT_EQ(batches.count(), 3);
  EXPECT_EQ(batches.at(2).rows, 1);
  EXPECT_TRUE(batches.at(1).inputs[0].is_alias_of(data.inputs[0].values));
  EXPECT_TRUE(at::equal(allRows(batches, 0), at::arange(kRows, at::kLong)));
  EXPECT_EQ(Batches(data, 3, true).count(), 2);
}

TEST(Batches, OneOrderForAll) {
  const at::Tensor order = sharedOrder(kRows, 1, 0);
  const Dataset shared = numbered(false), stacked = numbered(true);
  EXPECT_TRUE(at::equal(allRows(Batches(shared, 3, false, order), 0), order));
  const at::Tensor rows = allRows(Batches(stacked, 3, false, order), 1);
  for (int64_t k = 0; k < kMembers; ++k) EXPECT_TRUE(at::equal(rows[k], order + 100 * k));
}

TEST(Batches, EachMemberItsOwnOrder) {
  const at::Tensor orders = at::stack(
      {memberOrder(kRows, 1, 10, 0), memberOrder(kRows, 1, 11, 0), memberOrder(kRows, 1, 12, 0)});
  const Dataset shared = numbered(false), stacked = numbered(true);
  EXPECT_TRUE(at::equal(allRows(Batches(shared, 3, false, orders), 1), orders));
  const at::Tensor rows = allRows(Batches(stacked, 3, false, orders), 1);
  for (int64_t k = 0; k < kMembers; ++k) EXPECT_TRUE(at::equal(rows[k], orders[k] + 100 * k));
}

TEST(SplitRows, PartsTheRows) {
  const auto [first, second] = splitRows(numbered(true), 5, 4);
  EXPECT_EQ(first.rows(), 5);
  EXPECT_EQ(second.rows(), 2);
  const at::Tensor all = at::cat({first.inputs[0].values, second.inputs[0].values}, 1);
  EXPECT_TRUE(at::equal(std::get<0>(all.sort(1)), numbered(true).inputs[0].values));
  EXPECT_TRUE(at::equal(first.inputs[0].values, first.target->values));
}

}  // namespace
}  // namespace chorus
