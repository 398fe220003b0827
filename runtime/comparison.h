// The fused model and its members side by side, step by step.
//
// Memory, in bytes of all members' tensors P: the fused model's copy, its gradients, and of a few
// members at a time their own code's tensors and gradients and the optimizer's state of both sides.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chorus/verify.h"
#include "runtime/examples.h"
#include "runtime/executor.h"
#include "runtime/solo.h"

namespace chorus {

struct Difference {
  double relative = 0;
  std::string what;  ///< "member 2 (b.pt), parameter 'fc.weight'"
};

/// One comparison of fused and solo runs, in one precision.
class Comparison {
 public:
  /// `dtype`: of floating tensors, else their own. Differences up to `atol` count as none.
  Comparison(const FusedModel& model, const std::vector<Member>& members,
             const VerifyOptions& options, std::optional<at::ScalarType> dtype, double atol);

  /// In eval mode on one batch, and `options.steps` training steps.
  Difference run(bool evaluates, bool trains);

 private:
  /// Members that are looked at together.
  struct Range {
    size_t begin = 0, end = 0;
  };
  using Columns = std::vector<std::vector<at::Tensor>>;  ///< outputs of each member of a range

  /// What the fused model did in eval mode.
  struct Evaluated {
    Batch batch;
    std::vector<at::Tensor> outputs;
    std::vector<at::Tensor> tensors;  ///< per slot; undefined for what training alone moves
  };

  Batch nextBatch();
  Evaluated evaluateFused();
  void evaluateSolos(const Evaluated& evaluated, const Range& range);
  void trainOnce(const Evaluated* evaluated);
  void forwardOnce(const Batch& batch, const Evaluated* evaluated);
  void trainSolos(const Batch& batch, const StepResult& fused, std::vector<at::Tensor>& gradients,
                  const Range& range);
  void update(const std::vector<at::Tensor>& gradients);
  void updateSolo(size_t k, const std::vector<at::Tensor>& gradients);

  std::vector<Range> ranges(size_t count) const;
  SoloMember& solo(size_t k);
  /// Frees the solo members of a range that no later step needs.
  void release(const Range& range);
  RandomContext soloRandom(size_t k);
  Columns soloOutputs(const Batch& batch, bool training, const Range& range);
  at::Tensor soloLosses(const Columns& solo, const StepResult& fused, const Batch& batch,
                        const Range& range);
  at::Tensor soloParameter(size_t k, size_t slot, size_t own);
  FusedModel withOptimizer(const Range& range) const;

  void note(size_t k, const std::string& what, const at::Tensor& fused, const at::Tensor& solo);
  void compareOutputs(const std::vector<at::Tensor>& fused, const Columns& solo,
                      const Range& range);
  /// Of the slots that `fused` defines.
  void compareTensors(const std::vector<at::Tensor>& fused, const Range& range);
  std::string nameOf(size_t k, size_t slot) const;
  /// Index of the slot's tensor among the member's own; nullopt where the member has none.
  std::optional<size_t> ownIndex(size_t k, size_t slot) const;
  /// Member k's part of values [K,...] of a slot that it has.
  at::Tensor partOf(const at::Tensor& values, size_t k, size_t slot) const;
  std::vector<at::Tensor> untrained() const;

  const std::vector<Member>& members_;
  const VerifyOptions& options_;
  std::optional<at::ScalarType> dtype_;
  double atol_;
  FusedModel model_;
  std::optional<OptimizerSpec> optimizer_;
  size_t together_;  ///< members whose solo side is held at once
  std::vector<size_t> trained_;
  Executor fused_;
  Examples examples_;
  Batch example_;
  std::optional<torch::jit::Module> loss_;
  std::vector<std::unique_ptr<SoloMember>> solos_;
  std::vector<std::unique_ptr<torch::optim::Optimizer>> updates_;
  Difference worst_;
};

}  // namespace chorus
