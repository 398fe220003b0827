#include "chorus/batching_rule.h"
#include "lib/batching/fold.h"

namespace chorus {

// Pools work on each channel alone; indices of max pools count within one channel's image.
RuleRows pooling() {
  return {
      perChannelRow("aten::max_pool1d", 1),
      perChannelRow("aten::max_pool2d", 2),
      perChannelRow("aten::max_pool3d", 3),
      perChannelRow("aten::max_pool1d_with_indices", 1),
      perChannelRow("aten::max_pool2d_with_indices", 2),
      perChannelRow("aten::max_pool3d_with_indices", 3),
      perChannelRow("aten::avg_pool1d", 1),
      perChannelRow("aten::avg_pool2d", 2),
      perChannelRow("aten::avg_pool3d", 3),
      perChannelRow("aten::adaptive_avg_pool1d", 1),
      perChannelRow("aten::adaptive_avg_pool2d", 2),
      perChannelRow("aten::adaptive_avg_pool3d", 3),
      perChannelRow("aten::adaptive_max_pool1d", 1),
      perChannelRow("aten::adaptive_max_pool2d", 2),
      perChannelRow("aten::adaptive_max_pool3d", 3),
  };
}

}  // namespace chorus
