// Which rows each member sees at each step of an epoch, and which members go through a step
// together.
#pragma once

#include "chorus/dataset.h"
#include "chorus/trainer.h"

namespace chorus {

/// Neighbouring members that see equally many rows in a step: one call on slices.
struct SubGroup {
  size_t begin = 0, count = 0;
  int64_t rows = 0;
};

class EpochPlan {
 public:
  /// `orders`: one [N] for all members, or K of them; an undefined one is the file's order.
  EpochPlan(const Dataset& data, std::vector<at::Tensor> orders, std::vector<int64_t> batch_sizes,
            bool drop_last);

  int64_t steps() const { return steps_; }
  /// Of member k alone.
  int64_t steps(size_t k) const;
  int64_t rows(size_t k) const;
  /// Rows of member k in a step; 0: it rests.
  int64_t rowsAt(size_t k, int64_t step) const;
  std::vector<SubGroup> groups(int64_t step) const;
  /// Shared arrays stay shared where all members of the group see the same rows.
  Batch batch(const SubGroup& group, int64_t step) const;

 private:
  at::Tensor rowsOf(const DataArray& array, const SubGroup& group, int64_t step) const;
  const at::Tensor& order(size_t k) const { return orders_.size() == 1 ? orders_[0] : orders_[k]; }

  const Dataset& data_;
  std::vector<at::Tensor> orders_;
  std::vector<int64_t> batch_sizes_;
  bool drop_last_;
  int64_t steps_ = 0;
};

/// The orders of an epoch, from 0, as the options say.
std::vector<at::Tensor> trainingOrders(const FusedModel& model, const Dataset& data,
                                       const TrainOptions& options, int64_t epoch);

}  // namespace chorus
