#include "chorus/dataset.h"

#include <limits>
#include <sstream>

#include "lib/export/state.h"
#include "lib/losses/common_target.h"
#include "lib/support/packed_lengths.h"
#include "lib/support/table_rows.h"

namespace chorus {
namespace {

constexpr const char* kComplexHelp =
    "write real and imaginary parts as numbers of their own, e.g. with numpy's .view(float)";

std::string sizesText(at::IntArrayRef sizes) {
  std::ostringstream text;
  text << sizes;
  return text.str();
}

std::string quoted(const DataArray& array) { return "array '" + array.key + "'"; }

/// "row 17", or "row 17 of member 2".
std::string rowText(const DataArray& array, int64_t flat, int64_t rows, int64_t per_row) {
  const int64_t row = flat / per_row;
  if (!array.stacked) return "row " + std::to_string(row);
  return "row " + std::to_string(row % rows) + " of member " + std::to_string(row / rows);
}

struct Checker {
  const std::string& path;
  const FusedModel& model;
  Diagnostics& diagnostics;

  [[noreturn]] void refuse(std::string text, std::string help = "") const {
    Message message = error(std::move(text), Place{path});
    message.help = std::move(help);
    throw Refused(message);
  }

  DataArray pick(const std::map<std::string, at::Tensor>& arrays, const std::string& key,
                 bool stacked) const {
    return {key, arrayNamed(arrays, key, path), stacked};
  }

  /// The dims in front of a row's own: N, or K and N.
  void checkLeading(const DataArray& array) const {
    const int64_t leading = array.stacked ? 2 : 1;
    if (array.values.dim() < leading) {
      refuse(quoted(array) + " has sizes " + sizesText(array.values.sizes()) + ", but " +
             (array.stacked ? "a stacked array has a member and a row dimension"
                            : "an array has a row dimension"));
    }
    const auto k = static_cast<int64_t>(model.k());
    if (array.stacked && array.values.size(0) != k) {
      refuse(quoted(array) + " is declared stacked and has first size " +
                 std::to_string(array.values.size(0)) + ", but there are " + std::to_string(k) +
                 " members",
             "a stacked array is [K,N,...]; --inputs shared and --targets shared take [N,...]");
    }
  }

  void checkRows(const DataArray& array, const DataArray& first) const {
    const int64_t rows = array.values.size(array.stacked),
                  wanted = first.values.size(first.stacked);
    if (rows != wanted) {
      refuse(quoted(array) + " has " + std::to_string(rows) + " rows, but " + quoted(first) +
             " has " + std::to_string(wanted));
    }
  }

  /// Position in a flat view of the first element where `bad` is true; -1: nowhere.
  static int64_t firstTrue(const at::Tensor& bad) {
    if (!bad.any().item<bool>()) return -1;
    return bad.flatten().to(at::kByte).argmax().item<int64_t>();
  }

  std::string placeOfValue(const DataArray& array, int64_t flat) const {
    const int64_t rows = array.values.size(array.stacked);
    const int64_t leading = array.stacked ? array.values.size(0) * rows : rows;
    return rowText(array, flat, rows, array.values.numel() / leading);
  }

  /// Position of a NaN or infinity, and what it is.
  std::optional<std::pair<int64_t, std::string>> notFinite(const DataArray& array) const {
    if (array.values.numel() == 0 || at::isfinite(array.values.sum(at::kDouble)).item<bool>())
      return {};
    const int64_t flat = firstTrue(at::isfinite(array.values).logical_not());
    if (flat < 0) return {};  // the sum overflowed
    const double value = array.values.flatten()[flat].item<double>();
    return std::pair{flat, std::string(std::isnan(value) ? "NaN" : "an infinity")};
  }

  void checkRange(const DataArray& array, int64_t below, const std::string& what,
                  const std::vector<int64_t>& ignored = {}) const {
    if (array.values.numel() == 0) return;
    at::Tensor bad = (array.values < 0).logical_or_(array.values >= below);
    for (int64_t value : ignored) bad = bad.logical_and_(array.values != value);
    const int64_t flat = firstTrue(bad);
    if (flat < 0) return;
    refuse(quoted(array) + " has the value " +
           std::to_string(array.values.flatten()[flat].item<int64_t>()) + " in " +
           placeOfValue(array, flat) + ", but " + what + " lie in 0.." + std::to_string(below - 1));
  }

  /// An input that decides how long packed sequences are.
  void checkPacked(DataArray& array, const PackedLengths& lengths) const {
    array.shared_lengths = true;
    if (array.stacked) {
      refuse(quoted(array) +
                 " is declared stacked, but it decides the lengths of packed sequences, "
                 "which all members share",
             "--inputs takes one word per input: shared, stacked");
    }
    if (!lengths.as_they_are || array.values.dim() != 1 || array.values.numel() == 0) return;
    const int64_t most = lengths.steps.value_or(std::numeric_limits<int64_t>::max());
    const at::Tensor bad = (array.values < 1).logical_or_(array.values > most);
    const int64_t flat = firstTrue(bad);
    if (flat < 0) return;
    refuse(quoted(array) + " has the value " + std::to_string(array.values[flat].item<int64_t>()) +
           " in " + placeOfValue(array, flat) + ", but the lengths of packed sequences " +
           (lengths.steps ? "lie in 1.." + std::to_string(most) : "are 1 or more"));
  }

  void checkInput(DataArray& array, const InputSpec& spec) const {
    checkLeading(array);
    const at::IntArrayRef sizes =
        array.values.sizes().slice(array.stacked);  // the member's: [N,...]
    bool fits = sizes.size() == spec.rank();
    for (size_t d = 0; fits && d < spec.rank(); ++d) {
      // The first dim counts the file's rows; what a batch may have of them is checked apart.
      fits = d == 0 || (spec.sizes[d] ? *spec.sizes[d] == sizes[d] : true);
    }
    if (!fits) {
      refuse(quoted(array) + " has sizes " + sizesText(sizes) +
                 (array.stacked ? " per member" : "") + ", but the model's input is " +
                 spec.toString(),
             sizes.size() == spec.rank() + 1 && !array.stacked
                 ? "--inputs stacked takes an array [K,N,...] with rows of each member"
                 : "");
    }
    castInput(array, spec);
    if (spec.bound) checkRange(array, *spec.bound, "the values of this input");
  }

  void castInput(DataArray& array, const InputSpec& spec) const {
    const at::ScalarType have = array.values.scalar_type();
    const bool floating = at::isFloatingType(spec.dtype), have_floating = at::isFloatingType(have);
    const bool lossless =
        have == spec.dtype || (floating && have_floating) ||
        (at::isIntegralType(spec.dtype, false) && at::isIntegralType(have, false));
    if (!lossless) {
      refuse(quoted(array) + " has dtype " + dtypeName(have) + ", but the model's input is " +
                 spec.toString(),
             at::isComplexType(have) ? kComplexHelp
             : floating ? "scale and convert integers to floating numbers when you write the file"
                        : "");
    }
    if (have_floating) {
      if (const auto bad = notFinite(array)) {
        refuse(quoted(array) + " has " + bad->second + " in " + placeOfValue(array, bad->first));
      }
    }
    array.values = array.values.to(spec.dtype).contiguous();
  }

  /// The one form of target that the loss takes.
  void checkExact(DataArray& array, const TargetShape& shape) const {
    const InputSpec spec{shape.dtype, shape.sizes, shape.bound};
    const at::IntArrayRef sizes = array.values.sizes().slice(array.stacked);
    const at::ScalarType have = array.values.scalar_type();
    bool fits = sizes.size() == spec.rank();
    for (size_t d = 1; fits && d < spec.rank(); ++d)
      fits = !spec.sizes[d] || *spec.sizes[d] == sizes[d];
    const bool kind = have == spec.dtype ||
                      (at::isFloatingType(have) && at::isFloatingType(spec.dtype)) ||
                      (at::isIntegralType(have, false) && at::isIntegralType(spec.dtype, false));
    if (!fits || !kind) {
      refuse(quoted(array) + " is " + dtypeName(have) + " with sizes " + sizesText(sizes) +
                 (array.stacked ? " per member" : "") + ", but the target of the loss is " +
                 spec.toString(),
             "--target gives dtype and sizes of the target, e.g. --target i64[N]");
    }
    array.values = array.values.to(spec.dtype).contiguous();
    if (spec.bound) checkRange(array, *spec.bound, "the values of the target");
    if (at::isFloatingType(spec.dtype)) warnOfNotFinite(array);
  }

  /// Lengths of sequences, one per row, of up to `most`.
  void checkLengths(DataArray& array, std::optional<int64_t> most) const {
    checkLeading(array);
    if (!at::isIntegralType(array.values.scalar_type(), false) ||
        array.values.dim() != 1 + array.stacked) {
      refuse(quoted(array) + " is " + dtypeName(array.values.scalar_type()) + " with sizes " +
             sizesText(array.values.sizes()) + ", but lengths are integers, one per row");
    }
    array.values = array.values.to(at::kLong).contiguous();
    if (most) checkRange(array, *most + 1, "the lengths");
  }

  void warnOfNotFinite(const DataArray& array) const {
    if (const auto bad = notFinite(array)) {
      diagnostics.add(warning(quoted(array) + " has " + bad->second + " in " +
                                  placeOfValue(array, bad->first) + "; the loss will not be finite",
                              Place{path}));
    }
  }

  void checkTargetSizes(const DataArray& array,
                        const std::vector<std::optional<int64_t>>& wanted) const {
    const at::IntArrayRef have = array.values.sizes().slice(array.stacked);
    for (size_t d = 1; d < wanted.size(); ++d) {  // the first counts rows
      if (!wanted[d] || *wanted[d] == have[d]) continue;
      refuse(quoted(array) + " has sizes " + sizesText(have) +
                 (array.stacked ? " per member" : "") + ", but the target of '" + model.loss->name +
                 "' has the sizes " +
                 InputSpec{at::kFloat, wanted, std::nullopt}.toString().substr(3),
             "a target never broadcasts: reshape it when you write the file");
    }
  }

  void checkTarget(DataArray& array, const TargetRule& rule, at::ScalarType output) const {
    checkLeading(array);
    if (rule.exact) return checkExact(array, *rule.exact);
    const bool integral = at::isIntegralType(array.values.scalar_type(), /*includeBool=*/true);
    const bool as_indices = integral && rule.class_indices;
    const size_t rank = as_indices ? rule.index_rank : rule.dense_rank;
    const auto have = static_cast<size_t>(array.values.dim() - array.stacked);
    if (rank == 0) {
      refuse(quoted(array) + " has dtype " + dtypeName(array.values.scalar_type()) +
             ", but the loss '" + model.loss->name + "' takes class numbers of an integer dtype");
    }
    if (rule.class_indices && !integral && have == rule.index_rank) {
      refuse(quoted(array) + " has dtype " + dtypeName(array.values.scalar_type()) +
             ", but class numbers of '" + model.loss->name + "' have an integer dtype");
    }
    if (have != rank) {
      refuse(quoted(array) + " has sizes " + sizesText(array.values.sizes().slice(array.stacked)) +
                 (array.stacked ? " per member" : "") + ", but the target of '" + model.loss->name +
                 "' has rank " + std::to_string(rank) + " here",
             "a target never broadcasts: reshape it when you write the file");
    }
    checkTargetSizes(array, losses::targetSizes(rule, as_indices));
    if (as_indices) {
      array.values = array.values.to(at::kLong).contiguous();
      if (rule.classes) checkRange(array, *rule.classes, "class numbers", rule.ignored);
      return;
    }
    if (array.values.is_complex()) {
      refuse(quoted(array) + " is complex", kComplexHelp);
    }
    array.values = array.values.to(output).contiguous();
    warnOfNotFinite(array);
  }
};

}  // namespace

const at::Tensor& arrayNamed(const std::map<std::string, at::Tensor>& arrays,
                             const std::string& key, const std::string& path) {
  if (const auto found = arrays.find(key); found != arrays.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, array] : arrays) names.push_back(name);
  std::string there;
  for (const std::string& name : names) there += (there.empty() ? "'" : ", '") + name + "'";
  const std::string near = nearest(key, names);
  throw Refused(
      error("there is no array '" + key + "'; the file has " + (there.empty() ? "none" : there) +
                (near.empty() ? "" : "; did you mean '" + near + "'?"),
            Place{path})
          .helpWith(arrays.size() == 1 && path.ends_with(".npy")
                        ? "several files between commas stand for the keys in order, e.g. --data " +
                              path + ",y.npy"
                        : "--keys names the arrays: the model's inputs in order, then the target"));
}

Dataset makeDataset(const std::map<std::string, at::Tensor>& arrays, const std::string& path,
                    const DataRoles& roles, const FusedModel& model, Diagnostics& diagnostics) {
  const Checker checker{path, model, diagnostics};
  const std::vector<InputSpec>& specs = model.prototype.inputs;
  const size_t wanted = specs.size() + roles.with_target + roles.more;
  if (roles.keys.size() != wanted) {
    checker.refuse("--keys names " + std::to_string(roles.keys.size()) +
                   " arrays, but the model takes " + std::to_string(specs.size()) +
                   (specs.size() == 1 ? " input" : " inputs") +
                   (roles.with_target ? " and a target" : "") +
                   (roles.more ? " and " + std::to_string(roles.more) + " arrays of lengths" : ""));
  }
  Dataset data;
  data.path = path;
  const auto packed = inputsThatAreLengths(*model.prototype.train.graph);
  const auto tables = inputsThatAreRows(*model.prototype.train.graph);
  for (size_t i = 0; i < specs.size(); ++i) {
    DataArray array = checker.pick(arrays, roles.keys[i], roles.stacked[i]);
    checker.checkInput(array, specs[i]);
    if (const auto rows = tables.find(i); rows != tables.end())
      checker.checkRange(array, rows->second, "the row numbers of its table");
    if (const auto lengths = packed.find(i); lengths != packed.end())
      checker.checkPacked(array, lengths->second);
    data.inputs.push_back(std::move(array));
    checker.checkRows(data.inputs.back(), data.inputs.front());
  }
  if (roles.with_target) {
    DataArray array = checker.pick(arrays, roles.keys[specs.size()], roles.stacked[specs.size()]);
    const LossRequest request = lossRequest(model);
    const TargetRule rule = findLoss(model.loss->name).target(request);
    checker.checkTarget(array, rule, request.output_dtypes.front());
    if (!data.inputs.empty()) checker.checkRows(array, data.inputs.front());
    data.target = std::move(array);
    for (size_t i = 0; i < roles.more; ++i) {
      const size_t at = specs.size() + 1 + i;
      DataArray lengths = checker.pick(arrays, roles.keys[at], roles.stacked[at]);
      checker.checkLengths(lengths, i == 0 ? request.output_sizes.at(0).at(0)
                                           : std::optional(data.target->values.size(-1)));
      if (!data.inputs.empty()) checker.checkRows(lengths, data.inputs.front());
      data.more.push_back(std::move(lengths));
    }
  }
  if (data.rows() == 0) checker.refuse("there are no rows");
  return data;
}

}  // namespace chorus
