#include "chorus/dataset.h"
#include "chorus/random.h"

namespace chorus {
namespace {

DataArray selectRows(const DataArray& array, const at::Tensor& rows) {
  return {array.key, array.values.index_select(array.stacked ? 1 : 0, rows), array.stacked};
}

Dataset selectRows(const Dataset& data, const at::Tensor& rows) {
  Dataset part;
  part.path = data.path;
  for (const DataArray& array : data.inputs) part.inputs.push_back(selectRows(array, rows));
  if (data.target) part.target = selectRows(*data.target, rows);
  return part;
}

}  // namespace

int64_t Dataset::rows() const {
  const DataArray& first = inputs.empty() ? *target : inputs.front();
  return first.values.size(first.stacked ? 1 : 0);
}

std::pair<Dataset, Dataset> splitRows(const Dataset& data, int64_t rows, uint64_t seed) {
  const int64_t total = data.rows();
  const at::Tensor order = randomOrder(total, RandomStream::of(Purpose::Split, seed, 0, 0, 0));
  // Each part keeps the file's order.
  const at::Tensor first = std::get<0>(order.narrow(0, 0, rows).sort());
  const at::Tensor second = std::get<0>(order.narrow(0, rows, total - rows).sort());
  return {selectRows(data, first), selectRows(data, second)};
}

Batches::Batches(const Dataset& data, int64_t batch_size, bool drop_last, at::Tensor order)
    : data_(data), batch_size_(batch_size), total_rows_(data.rows()), order_(std::move(order)) {
  count_ = drop_last ? total_rows_ / batch_size_ : (total_rows_ + batch_size_ - 1) / batch_size_;
  if (order_.defined() && order_.dim() == 2) {
    // Row n of member k is row k N + n of [(K N),...].
    stacked_order_ = order_ + at::arange(order_.size(0), at::kLong).mul(total_rows_).unsqueeze(1);
  }
}

at::Tensor Batches::rowsOf(const DataArray& array, int64_t begin, int64_t rows) const {
  const int64_t dim = array.stacked ? 1 : 0;
  if (!order_.defined()) return array.values.narrow(dim, begin, rows);
  if (order_.dim() == 1) return array.values.index_select(dim, order_.narrow(0, begin, rows));
  const at::Tensor& order = array.stacked ? stacked_order_ : order_;
  const at::Tensor index = order.narrow(1, begin, rows).flatten();  // [K,B] -> [(K B)]
  const at::Tensor source = array.stacked ? array.values.flatten(0, 1) : array.values;
  return source.index_select(0, index).unflatten(
      0, {order.size(0), rows});  // [(K B),...] -> [K,B,...]
}

Batch Batches::at(int64_t index) const {
  const int64_t begin = index * batch_size_;
  Batch batch;
  batch.rows = std::min(batch_size_, total_rows_ - begin);
  for (const DataArray& array : data_.inputs)
    batch.inputs.push_back(rowsOf(array, begin, batch.rows));
  if (data_.target) batch.target = rowsOf(*data_.target, begin, batch.rows);
  return batch;
}

}  // namespace chorus
