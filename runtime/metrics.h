// Running means over the batches of an epoch, per member.
#pragma once

#include <ATen/core/Tensor.h>

#include "chorus/dataset.h"
#include "chorus/fused_model.h"

namespace chorus {

/// Mean over rows of losses that are means over batches: batches weigh by their rows.
class LossMean {
 public:
  /// losses: [K]; detached.
  void add(const at::Tensor& losses, int64_t rows);
  std::vector<double> values() const;

 private:
  at::Tensor sum_;  ///< [K] fp64
  int64_t rows_ = 0;
};

/// Share of right class numbers; elements with an ignored target do not count.
class Accuracy {
 public:
  /// Class targets are integers one rank below the output, classes in the member's dim 1 (dim 0 of
  /// rank 1).
  static bool applies(const FusedModel& model, const Dataset& data);
  explicit Accuracy(const FusedModel& model);
  /// output: [K,N,C,...]; target: shared [N,...] or stacked [K,N,...].
  void add(const at::Tensor& output, const at::Tensor& target);
  std::vector<double> values() const;

 private:
  std::vector<int64_t> ignored_;
  at::Tensor right_, counted_;  ///< [K] fp64
};

}  // namespace chorus
