#include "chorus/dataset.h"
#include "chorus/random.h"

namespace chorus {
namespace {

DataArray selectRows(const DataArray& array, const at::Tensor& rows) {
  return {array.key, array.values.index_select(array.stacked ? 1 : 0, rows), array.stacked,
          array.shared_lengths};
}

Dataset selectRows(const Dataset& data, const at::Tensor& rows) {
  Dataset part;
  part.path = data.path;
  for (const DataArray& array : data.inputs) part.inputs.push_back(selectRows(array, rows));
  if (data.target) part.target = selectRows(*data.target, rows);
  for (const DataArray& array : data.more) part.more.push_back(selectRows(array, rows));
  if (data.weights) part.weights = selectRows(*data.weights, rows);
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

}  // namespace chorus
