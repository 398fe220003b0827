// chorus.json: everything of a fused file that is neither a tensor nor code.
//
//   format          1; a reader refuses a larger one
//   chorus, torch   versions that wrote it
//   k, members      [{name, seed as decimal string}]
//   inputs          [{dtype, sizes (null: N), bound}]
//   output          "tensor" | {"tuple": [...]} | {"list": [...]} | {"dict": [[key, ...]]}
//   n_outputs       of the model
//   train_updates, eval_updates    slots that the further outputs of member_train, member_eval move
//   slots           [{name, aliases, role, stacked, trainable, requires_grad, path}]
//                   path: where the tensor is in the file
//   modules         [[path, type]]
//   traced, code_trains, code_evaluates, fixed_batch, fixed_batch_place    as in chorus/member.h
//   loss            {name, arguments, tensors, stacked (arguments with an entry per member)}
//   optimizer       {name, flags, hyperparameters, groups, state (names of the tensors)}
//   random_nodes    [{train, eval}] per member where they number their random nodes differently
//   extra           names of further tensors under chorus.extra
//   elastic         true: every stacked tensor may be sliced along K
//   partial         [{variant, traced, modules, tensors: [{name, aliases, role, requires_grad,
//                   in (slot), sizes, packed}]}] per member where they differ in places
//   info            certificate, hashes, decisions, ... as the tools gave them
#pragma once

#include <nlohmann/json.hpp>

#include "chorus/fused_model.h"

namespace chorus {

inline constexpr int kFusedFormat = 1;

nlohmann::json fusedJson(const FusedModel& model);

/// A model without graphs, tensors and tensor arguments. Throws Refused (error at `path`) where the
/// text is not what fusedJson writes or is of a newer format. `slot_paths`: where the tensor of
/// each slot is in the module.
struct FusedFrame {
  FusedModel model;
  std::vector<std::string> slot_paths;
  std::vector<std::string> state_names;
  std::vector<std::string> extra_names;
  std::vector<std::string> loss_tensors;  ///< names without "loss_"
  std::vector<std::string> loss_stacked;  ///< of arguments that are numbers
};
FusedFrame readFusedJson(const std::string& text, const std::string& path);

/// Top-level name of the submodule `chorus`: with a prefix where the member has one of this name.
std::string chorusName(const FusedModel& model);
/// Where the tensor of a slot is in the fused module.
std::string slotPath(const FusedModel& model, size_t slot);

}  // namespace chorus
