#include "lib/batching/dims.h"

#include <numeric>
#include <string>

#include "chorus/diagnostics.h"
#include "lib/support/fault.h"

namespace chorus {

int64_t wrapDim(int64_t dim, int64_t rank) {
  const int64_t axes = rank == 0 ? 1 : rank;
  if (dim < -axes || dim >= axes) {
    throw Refused(
        error("axis " + std::to_string(dim) + " of a tensor of rank " + std::to_string(rank)));
  }
  return dim < 0 ? dim + axes : dim;
}

int64_t shiftDim(int64_t dim, int64_t rank) {
  if (fault("dim_off_by_one") && dim >= 0) return dim;
  return wrapDim(dim, rank) + 1;
}

std::vector<int64_t> shiftDims(const std::vector<int64_t>& dims, int64_t rank) {
  std::vector<int64_t> shifted;
  for (const int64_t dim : dims) shifted.push_back(shiftDim(dim, rank));
  return shifted;
}

std::vector<int64_t> dimRange(int64_t first, int64_t last) {
  std::vector<int64_t> dims(static_cast<size_t>(std::max<int64_t>(0, last - first + 1)));
  std::iota(dims.begin(), dims.end(), first);
  return dims;
}

}  // namespace chorus
