// Axis arithmetic: a member's axis as an axis of the stacked tensor, which has K in front.
#pragma once

#include <cstdint>
#include <vector>

namespace chorus {

/// 0 <= result < max(rank, 1). A tensor of rank 0 has the axes 0 and -1, as in PyTorch. Throws
/// Refused (error) otherwise.
int64_t wrapDim(int64_t dim, int64_t rank);

/// Where the member's axis is behind K: wrapped against the member rank, then one further.
int64_t shiftDim(int64_t dim, int64_t rank);
std::vector<int64_t> shiftDims(const std::vector<int64_t>& dims, int64_t rank);

/// [first, first + 1, ..., last]
std::vector<int64_t> dimRange(int64_t first, int64_t last);

}  // namespace chorus
