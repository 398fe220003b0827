// Running losses and metrics over the batches of an epoch, per member.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>

#include "chorus/dataset.h"
#include "chorus/fused_model.h"
#include "runtime/epoch_plan.h"
#include "runtime/scripted_metric.h"

namespace chorus {

/// Mean over rows of losses that are means over batches: batches weigh by their rows, or by the sum
/// of their rows' weights.
class LossMean {
 public:
  explicit LossMean(size_t k) : sums_(k, 0.0), rows_(k, 0.0) {}
  /// losses: [n], of the group's members; weight: [n,B] of the rows, or undefined.
  void add(const at::Tensor& losses, const SubGroup& group, const at::Tensor& weight = {});
  /// NaN where a member had no rows.
  std::vector<double> values() const;

  std::vector<double> sums_, rows_;  ///< for checkpoints
};

/// What can be asked for with --metric; all are means over rows, per member:
///
///   accuracy   share of right class numbers; elements with an ignored target do not count
///   topN       the right class is among the N largest, e.g. top5
///   f1         macro average over the classes (of one logit per row: of class 1; of several zeros
///              and ones per row: over the columns)
///   auroc      of one logit or two classes; of more classes the mean of one against the others; of
///              several zeros and ones per row the mean over the columns
///   mse, mae   over all elements
///   r2         1 - residual / total sum of squares, mean over the columns
///   perplexity exp of the loss
///   NAME.pt    what forward(output, target) of a TorchScript file makes of all rows at once
class Metrics {
 public:
  /// Throws Refused: usage for unknown names, error where one does not fit the model and its data.
  /// No names: those of defaultMetrics.
  Metrics(const FusedModel& model, const Dataset& data, const std::vector<std::string>& names);
  /// None at all.
  explicit Metrics(const FusedModel& model) : k_(static_cast<int64_t>(model.k())) {}

  bool empty() const { return names_.empty(); }
  /// outputs: [n,N,...] of the group's members, of which the one that the target belongs to counts;
  /// target: shared [N,...] or stacked [n,N,...].
  void add(const std::vector<at::Tensor>& outputs, const at::Tensor& target, const SubGroup& group);
  /// `loss`: the mean losses, for perplexity.
  std::map<std::string, std::vector<double>> values(const std::vector<double>& loss) const;

  /// Running sums by name, [K,...] fp64, for checkpoints.
  std::map<std::string, at::Tensor> sums;

 private:
  at::Tensor& sum(const std::string& name, at::IntArrayRef sizes);
  void addSums(const std::string& name, const at::Tensor& values, const SubGroup& group);
  void addClasses(const std::string& name, const at::Tensor& output, const at::Tensor& target,
                  const SubGroup& group);
  void addNumbers(const std::string& name, const at::Tensor& output, const at::Tensor& target,
                  const SubGroup& group);
  void addRows(const at::Tensor& output, const at::Tensor& target, const SubGroup& group);
  void addScores(const at::Tensor& output, const at::Tensor& target, const SubGroup& group);

  int64_t k_;
  std::vector<std::string> names_;
  std::vector<int64_t> ignored_;
  size_t output_ = 0;
  double threshold_ = 0;
  bool class_target_ = false;
  using Parts = std::vector<std::pair<at::Tensor, at::Tensor>>;
  std::vector<Parts> scores_;                                              ///< per member, of auroc
  std::map<std::string, std::shared_ptr<const ScriptedMetric>> scripted_;  ///< by path
  std::vector<Parts> rows_;                                                ///< per member, of these
};

/// Area under the curve of `scores` [N] for flags [N]; ties count half. NaN where only one class is
/// there.
double areaUnderCurve(const at::Tensor& scores, const at::Tensor& flags);

}  // namespace chorus
