#include "runtime/epoch_plan.h"

#include "chorus/random.h"
#include "lib/support/fault.h"

namespace chorus {

EpochPlan::EpochPlan(const Dataset& data, std::vector<at::Tensor> orders,
                     std::vector<int64_t> batch_sizes, bool drop_last)
    : data_(data),
      orders_(std::move(orders)),
      batch_sizes_(std::move(batch_sizes)),
      drop_last_(drop_last) {
  for (size_t k = 0; k < batch_sizes_.size(); ++k) steps_ = std::max(steps_, steps(k));
}

int64_t EpochPlan::rows(size_t k) const {
  return order(k).defined() ? order(k).size(0) : data_.rows();
}

int64_t EpochPlan::steps(size_t k) const {
  return drop_last_ ? rows(k) / batch_sizes_[k] : (rows(k) + batch_sizes_[k] - 1) / batch_sizes_[k];
}

int64_t EpochPlan::rowsAt(size_t k, int64_t step) const {
  if (step >= steps(k)) return 0;
  return std::min(batch_sizes_[k], rows(k) - step * batch_sizes_[k]);
}

std::vector<SubGroup> EpochPlan::groups(int64_t step) const {
  std::vector<SubGroup> groups;
  for (size_t k = 0; k < batch_sizes_.size(); ++k) {
    const int64_t rows = rowsAt(k, step);
    if (rows == 0) continue;
    const bool joins = !groups.empty() && groups.back().rows == rows &&
                       groups.back().begin + groups.back().count == k;
    if (joins) {
      ++groups.back().count;
    } else {
      groups.push_back({k, 1, rows});
    }
  }
  return groups;
}

at::Tensor EpochPlan::rowsOf(const DataArray& array, const SubGroup& group, int64_t step) const {
  const auto first = static_cast<int64_t>(group.begin), n = static_cast<int64_t>(group.count);
  const int64_t begin = step * batch_sizes_[group.begin];
  bool alike = orders_.size() == 1 || group.count == 1;
  for (size_t k = group.begin; k < group.begin + group.count; ++k) {
    alike = alike && batch_sizes_[k] == batch_sizes_[group.begin];
  }
  // [K,N,...] -> [n,N,...]
  const at::Tensor values = array.stacked ? array.values.narrow(0, first, n) : array.values;
  if (alike) {
    const int64_t dim = array.stacked ? 1 : 0;
    const at::Tensor& rows = order(group.begin);
    if (!rows.defined()) return values.narrow(dim, begin, group.rows);
    return values.index_select(dim, rows.narrow(0, begin, group.rows));
  }
  if (array.shared_lengths) {
    throw Refused(unsupported("members see rows of their own, but the array '" + array.key +
                              "' decides the lengths of packed sequences, which all members share")
                      .helpWith("give all members the same rows in the same order: --shuffle "
                                "shared, one --batch-size, no --folds, --bootstrap or --subset"));
  }
  std::vector<at::Tensor> index;  // of rows of [N,...], or of [(n N),...]
  for (int64_t i = 0; i < n; ++i) {
    const size_t k = group.begin + (fault("rows_of_member_zero") ? 0 : static_cast<size_t>(i));
    const int64_t mine = step * batch_sizes_[k];
    const at::Tensor rows = order(k).defined() ? order(k).narrow(0, mine, group.rows)
                                               : at::arange(mine, mine + group.rows, at::kLong);
    index.push_back(array.stacked ? rows + i * values.size(1) : rows);
  }
  const at::Tensor source = array.stacked ? values.flatten(0, 1) : values;
  // [(n B),...] -> [n,B,...]
  return source.index_select(0, at::cat(index)).unflatten(0, {n, group.rows});
}

Batch EpochPlan::batch(const SubGroup& group, int64_t step) const {
  Batch batch;
  batch.rows = group.rows;
  for (const DataArray& array : data_.inputs) batch.inputs.push_back(rowsOf(array, group, step));
  if (data_.target) batch.target = rowsOf(*data_.target, group, step);
  for (const DataArray& array : data_.more) batch.more.push_back(rowsOf(array, group, step));
  if (!data_.weights) return batch;
  // [N,...] -> [n,N,...]
  const auto stacked = [&](const DataArray& array, const at::Tensor& rows) {
    if (rows.dim() == array.values.dim() + !array.stacked) return rows;
    std::vector<int64_t> sizes = rows.sizes().vec();
    sizes.insert(sizes.begin(), static_cast<int64_t>(group.count));
    return rows.unsqueeze(0).expand(sizes);
  };
  batch.weight = stacked(*data_.weights, rowsOf(*data_.weights, group, step));
  if (data_.target) batch.target = stacked(*data_.target, batch.target);
  return batch;
}

std::vector<at::Tensor> trainingOrders(const FusedModel& model, const Dataset& data,
                                       const TrainOptions& options, int64_t epoch) {
  const auto number = static_cast<uint64_t>(epoch);
  const auto orderOf = [&](size_t k, int64_t n) -> at::Tensor {
    if (options.shuffle == Shuffle::None) return {};
    if (options.shuffle == Shuffle::Shared) return sharedOrder(n, options.seed, number);
    return memberOrder(n, options.seed, model.member_seeds[k], number);
  };
  const bool alike = options.rows.empty() && options.shuffle != Shuffle::Member;
  std::vector<at::Tensor> orders;
  for (size_t k = 0; k < (alike ? 1 : model.k()); ++k) {
    const at::Tensor rows = options.rows.empty() ? at::Tensor() : options.rows[k];
    const at::Tensor order = orderOf(k, rows.defined() ? rows.size(0) : data.rows());
    orders.push_back(!rows.defined()   ? order
                     : order.defined() ? rows.index_select(0, order)
                                       : rows);
  }
  return orders;
}

std::vector<at::Tensor> foldRows(int64_t n, size_t k, uint64_t seed) {
  const at::Tensor order = randomOrder(n, RandomStream::of(Purpose::Folds, seed, 0, 0, 0));
  std::vector<at::Tensor> folds;
  const auto count = static_cast<int64_t>(k);
  int64_t begin = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t size = n / count + (i < n % count);
    folds.push_back(std::get<0>(order.narrow(0, begin, size).sort()));
    begin += size;
  }
  return folds;
}

at::Tensor bootstrapRows(int64_t n, uint64_t seed, uint64_t member_seed) {
  RandomDraws draws(RandomStream::of(Purpose::Bootstrap, seed, member_seed, 0, 0));
  at::Tensor rows = at::empty({n}, at::kLong);
  int64_t* out = rows.data_ptr<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<int64_t>(draws.below(static_cast<uint64_t>(n)));
  }
  return std::get<0>(rows.sort());
}

}  // namespace chorus
