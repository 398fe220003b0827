// Batches to try a model on, before there are data.
#pragma once

#include <ATen/core/Generator.h>

#include <optional>

#include "chorus/dataset.h"
#include "chorus/fused_model.h"

namespace chorus {

/// Inputs and a target that fit the model, drawn from a generator of our own: no number that a user
/// sees is drawn.
class Examples {
 public:
  /// Floating inputs and targets in `dtype` where it is given, else in the model's own.
  Examples(const FusedModel& model, std::optional<at::ScalarType> dtype, uint64_t seed);

  /// A batch of `rows` rows that all members share.
  Batch next(int64_t rows);

  /// `batch` with its floating tensors in `dtype`.
  static Batch cast(Batch batch, std::optional<at::ScalarType> dtype);

 private:
  at::Tensor floating(const std::vector<int64_t>& sizes, at::ScalarType dtype, bool positive);
  at::Tensor input(size_t i, int64_t rows);
  int64_t tableSize(size_t i) const;
  at::Tensor target(int64_t rows);
  void sequences(int64_t rows, Batch& batch);
  at::Tensor exactTarget(const TargetShape& shape, int64_t rows);

  const FusedModel& model_;
  std::optional<at::ScalarType> dtype_;
  at::Generator generator_;
};

}  // namespace chorus
