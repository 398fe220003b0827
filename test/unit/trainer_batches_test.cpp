#include <gtest/gtest.h>

#include "chorus/dataset.h"
#include "chorus/random.h"
#include "runtime/epoch_plan.h"

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

using Orders = std::vector<at::Tensor>;

EpochPlan planOf(const Dataset& data, Orders orders, std::vector<int64_t> sizes,
                 bool drop_last = false) {
  return {data, std::move(orders), std::move(sizes), drop_last};
}

/// The rows of all steps of a plan whose members go together.
at::Tensor allRows(const EpochPlan& plan, int64_t dim) {
  std::vector<at::Tensor> parts;
  for (int64_t i = 0; i < plan.steps(); ++i) {
    const std::vector<SubGroup> groups = plan.groups(i);
    EXPECT_EQ(groups.size(), 1u);
    parts.push_back(plan.batch(groups[0], i).inputs[0]);
  }
  return at::cat(parts, dim);
}

TEST(EpochPlan, FileOrderIsViews) {
  const Dataset data = numbered(false);
  const EpochPlan plan = planOf(data, Orders(1), {3, 3, 3});
  ASSERT_EQ(plan.steps(), 3);
  EXPECT_EQ(plan.batch(plan.groups(2)[0], 2).rows, 1);
  EXPECT_TRUE(plan.batch(plan.groups(1)[0], 1).inputs[0].is_alias_of(data.inputs[0].values));
  EXPECT_TRUE(at::equal(allRows(plan, 0), at::arange(kRows, at::kLong)));
  EXPECT_EQ(planOf(data, Orders(1), {3, 3, 3}, true).steps(), 2);
}

TEST(EpochPlan, OneOrderForAll) {
  const at::Tensor order = sharedOrder(kRows, 1, 0);
  const Dataset shared = numbered(false), stacked = numbered(true);
  EXPECT_TRUE(at::equal(allRows(planOf(shared, {order}, {3, 3, 3}), 0), order));
  const at::Tensor rows = allRows(planOf(stacked, {order}, {3, 3, 3}), 1);
  for (int64_t k = 0; k < kMembers; ++k) EXPECT_TRUE(at::equal(rows[k], order + 100 * k));
}

TEST(EpochPlan, EachMemberItsOwnOrder) {
  const Orders orders = {memberOrder(kRows, 1, 10, 0), memberOrder(kRows, 1, 11, 0),
                         memberOrder(kRows, 1, 12, 0)};
  const Dataset shared = numbered(false), stacked = numbered(true);
  EXPECT_TRUE(at::equal(allRows(planOf(shared, orders, {3, 3, 3}), 1), at::stack(orders)));
  const at::Tensor rows = allRows(planOf(stacked, orders, {3, 3, 3}), 1);
  for (int64_t k = 0; k < kMembers; ++k) EXPECT_TRUE(at::equal(rows[k], orders[k] + 100 * k));
}

/// Whatever the sub-groups, each member sees the rows of its own order, in batches of its own size.
TEST(EpochPlan, UnevenMembersSeeTheirOwnRows) {
  const Orders orders = {at::arange(7, at::kLong), at::tensor({6, 5, 4, 3, 3}, at::kLong),
                         at::tensor({0, 2, 4, 6, 5}, at::kLong)};
  for (const bool stacked : {false, true}) {
    const Dataset data = numbered(stacked);
    const EpochPlan plan = planOf(data, orders, {3, 2, 2});
    std::vector<std::vector<at::Tensor>> seen(3);
    for (int64_t i = 0; i < plan.steps(); ++i) {
      for (const SubGroup& group : plan.groups(i)) {
        const Batch batch = plan.batch(group, i);
        const bool own = batch.inputs[0].dim() == 2;
        EXPECT_TRUE(at::equal(batch.inputs[0], batch.target));
        for (size_t j = 0; j < group.count; ++j) {
          const auto row = static_cast<int64_t>(j);
          seen[group.begin + j].push_back(own ? batch.inputs[0][row] : batch.inputs[0]);
          EXPECT_EQ(seen[group.begin + j].back().size(0), group.rows);
        }
      }
    }
    for (size_t k = 0; k < 3; ++k) {
      const int64_t shift = stacked ? 100 * static_cast<int64_t>(k) : 0;
      EXPECT_TRUE(at::equal(at::cat(seen[k]), orders[k] + shift)) << k;
      EXPECT_EQ(seen[k].front().size(0), k == 0 ? 3 : 2);
    }
  }
}

TEST(Rows, FoldsPartThemAndBootstrapsRepeatThem) {
  const std::vector<at::Tensor> folds = foldRows(11, 3, 5);
  EXPECT_EQ(folds[0].size(0), 4);
  EXPECT_EQ(folds[2].size(0), 3);
  EXPECT_TRUE(at::equal(std::get<0>(at::cat(folds).sort()), at::arange(11, at::kLong)));
  const at::Tensor rows = bootstrapRows(50, 5, 1);
  EXPECT_EQ(rows.size(0), 50);
  EXPECT_FALSE(at::equal(rows, bootstrapRows(50, 5, 2)));
  const auto distinct = std::get<0>(at::_unique(rows)).size(0);
  EXPECT_TRUE(20 < distinct && distinct < 45) << distinct;  // about 1 - 1/e of 50
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
