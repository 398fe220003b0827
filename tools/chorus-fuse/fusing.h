// From archives to a fused model: what chorus-fuse and the Python module have in common.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "chorus/batch_graph.h"
#include "chorus/fused_model.h"
#include "chorus/verify.h"
#include "lib/partial/partial.h"
#include "tools/chorus-fuse/estimate.h"
#include "tools/chorus-fuse/options.h"
#include "tools/common/phases.h"

namespace chorus {

struct Fused {
  FusedModel model;
  std::vector<Decision> decisions;
  VerifyReport checks;
  std::optional<Estimate> step;  ///< with --plan and --report
  Phases phases;                 ///< prove, check, stack, build, verify
};

/// The members, read two at a time; copies of the one there is with --replicate.
std::vector<Member> importMembers(const std::vector<std::string>& paths,
                                  const std::vector<std::string>& names,
                                  const FuseOptions& options);

/// Says what importing remarked, the same remark once; warnings only where the model is to train.
void sayRemarks(const std::vector<Member>& members, bool trains);

/// Proves, checks, stacks, builds and verifies. `loss_tensors` are arguments of the loss beside
/// those of --loss-arg. Refuses before anything is written. With --no-verify the members' values
/// are released once they are stacked.
Fused fuseMembers(std::vector<Member>& members, const FuseOptions& options,
                  const std::map<std::string, at::Tensor>& loss_tensors = {});

/// Of members that were made alike by --partial: what they were.
struct PartialParts {
  const std::vector<Member>& originals;
  const Combined& combined;
};

/// The same for one group of members, proved equal, whose loss and optimizer are those of `all`
/// members by their numbers.
struct Training {
  std::optional<LossSpec> loss;
  std::optional<OptimizerSpec> optimizer;
  TrainingOptions options;  ///< with the table read
  size_t k = 0;             ///< members that the specs are for
};
Training trainingOf(const FuseOptions& options, const std::vector<std::string>& names,
                    const std::map<std::string, at::Tensor>& loss_tensors = {});
Fused fuseProved(std::vector<Member>& members, const Certificate& certificate,
                 const Training& training, const std::vector<size_t>& numbers,
                 const FuseOptions& options, const PartialParts* partial = nullptr);

/// The report for machines.
nlohmann::json reportJson(const Fused& fused, const FuseOptions& options);

}  // namespace chorus
