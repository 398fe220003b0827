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
  bool shared_lengths = false;  ///< decides lengths of packed sequences, which members share
};

struct Dataset {
  std::string path;               ///< for messages
  std::vector<DataArray> inputs;  ///< the model's inputs in order
  std::optional<DataArray> target;
  std::vector<DataArray> more;       ///< LossDefinition::more_targets
  std::optional<DataArray> weights;  ///< of rows: floating [N] or [K,N]

  int64_t rows() const;
};

/// Which array plays which role.
struct DataRoles {
  /// The inputs in order, then the target, then what else the loss takes.
  std::vector<std::string> keys;
  /// Per key. From --inputs and --targets.
  std::vector<bool> stacked;
  /// The last key is the target. False for prediction, and for models that return their own loss.
  bool with_target = true;
  size_t more = 0;  ///< keys behind the target
};

/// The array `key` of those in the file `path`. Throws Refused (error), with the nearest name.
const at::Tensor& arrayNamed(const std::map<std::string, at::Tensor>& arrays,
                             const std::string& key, const std::string& path);

/// Picks the arrays and checks them against the model: keys, row counts, sizes, dtypes, values.
/// Floating arrays are cast to the member's dtype, class numbers of any integer type to int64.
/// Throws Refused (error) naming the array and, for a bad value, its row; NaN in a floating target
/// is a warning. `path` is for messages.
Dataset makeDataset(const std::map<std::string, at::Tensor>& arrays, const std::string& path,
                    const DataRoles& roles, const FusedModel& model, Diagnostics& diagnostics);

/// Gives the rows of `data` weights: [N] for all members or [K,N], by rank. Throws Refused (error)
/// where sizes do not fit or a value is negative or not finite, where the loss is none of rows
/// (by name), and where it leaves a row out or has class weights, so that there is no one mean.
void setWeights(Dataset& data, const std::string& key, const at::Tensor& weights,
                const FusedModel& model);

/// The first `rows` rows go to the first set, the others to the second, in the order that `seed`
/// draws (all members alike). 0 < rows < N.
std::pair<Dataset, Dataset> splitRows(const Dataset& data, int64_t rows, uint64_t seed);

struct Batch {
  std::vector<at::Tensor> inputs;
  at::Tensor target;  ///< undefined if the data have none
  std::vector<at::Tensor> more;
  at::Tensor weight;  ///< [K,N], and then the target is stacked; undefined: all rows count alike
  int64_t rows = 0;
};

}  // namespace chorus
