// Data in the roles they have for a fused model, checked before the first step, and cut into
// batches.
//
// An array is shared (all members see its rows: [N,...]) or stacked (each member has its own:
// [K,N,...]). Which one it is, is declared, never guessed from sizes.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "chorus/diagnostics.h"
#include "chorus/fused_model.h"

namespace chorus {

struct DataArray {
  std::string key;
  at::Tensor values;  ///< shared [N,...] or stacked [K,N,...], contiguous
  bool stacked = false;
};

struct Dataset {
  std::string path;               ///< for messages
  std::vector<DataArray> inputs;  ///< the model's inputs in order
  std::optional<DataArray> target;

  int64_t rows() const;
};

/// Which array plays which role.
struct DataRoles {
  /// The inputs in order, then the target.
  std::vector<std::string> keys;
  /// Per key. From --inputs and --targets.
  std::vector<bool> stacked;
  /// The last key is the target. False for prediction, and for models that return their own loss.
  bool with_target = true;
};

/// Picks the arrays and checks them against the model: keys, row counts, sizes, dtypes, values.
/// Floating arrays are cast to the member's dtype, class numbers of any integer type to int64.
/// Throws Refused (error) naming the array and, for a bad value, its row; NaN in a floating target
/// is a warning. `path` is for messages.
Dataset makeDataset(const std::map<std::string, at::Tensor>& arrays, const std::string& path,
                    const DataRoles& roles, const FusedModel& model, Diagnostics& diagnostics);

/// The first `rows` rows go to the first set, the others to the second, in the order that `seed`
/// draws (all members alike). 0 < rows < N.
std::pair<Dataset, Dataset> splitRows(const Dataset& data, int64_t rows, uint64_t seed);

struct Batch {
  std::vector<at::Tensor> inputs;
  at::Tensor target;  ///< undefined if the data have none
  int64_t rows = 0;
};

}  // namespace chorus
