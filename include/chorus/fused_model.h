// A fused model in memory, its file, and the TorchScript module that trains it.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chorus/batch_graph.h"
#include "chorus/certificate.h"
#include "chorus/loss.h"
#include "chorus/member.h"
#include "chorus/optimizer.h"

namespace chorus {

/// What a member calls its tensors (per slot: name, then aliases) and its modules.
struct OwnNames {
  std::vector<std::vector<std::string>> slots;
  std::vector<ModuleRecord> modules;
};

struct FusedModel {
  std::vector<std::string> member_names;
  std::vector<uint64_t> member_seeds;
  /// Graphs, names, roles, specs of one member; `value` of its slots is undefined (see `tensors`).
  Member prototype;
  std::vector<at::Tensor> tensors;  ///< per slot: [K,...] where stacked, else the one shared copy
  std::vector<bool> stacked;        ///< per slot
  /// One per member where members name their tensors differently; empty: all like the prototype.
  std::vector<OwnNames> own_names;
  std::optional<LossSpec> loss;
  std::optional<OptimizerSpec> optimizer;
  at::Tensor active;                ///< [K] bool
  at::Tensor step;                  ///< [K] int64: updates done, per member
  /// Optimizer state: "exp_avg" -> [K,P]; of a further dtype group "exp_avg_f64", ...
  std::map<std::string, at::Tensor> state;
  nlohmann::json info;              ///< certificate, content hashes, versions: goes to chorus.json as it is

  size_t k() const { return member_names.size(); }
};

/// Slots that training moves: parameters that require a gradient and that the train graph's outputs depend on.
std::vector<size_t> trainableSlots(const FusedModel& model);

struct BuildOptions {
  /// Draw masks from counters (chorus:: ops of the runtime) instead of PyTorch's generator. Such a module cannot be saved.
  bool counter_based_random = false;
  std::set<std::string> disabled;          ///< passes and rules
  std::vector<Decision>* decisions = nullptr;
};

/// Stacks members that are proved equal. Constants (role Constant) stay shared. Slots correspond by position, or as
/// the certificate says.
FusedModel stackMembers(const std::vector<Member>& members,
                        const Certificate* certificate = nullptr);

/// Fresh optimizer state: zeros for every slot of `model.optimizer`, and step 0. Without it the module starts with zeros
/// that `model.state` does not hold. Names: "exp_avg" for the first dtype of the trainable parameters, "exp_avg_f64", ...
/// for further ones.
void resetState(FusedModel& model);

/// What the loss of `model` is built for (to ask its TargetRule, for instance).
LossRequest lossRequest(const FusedModel& model);

/// The module of docs/contract.md section 3. It holds the very tensors of `model`: training it moves them.
torch::jit::Module buildModule(const FusedModel& model, const BuildOptions& options = {});

/// Writes to a temporary file beside `path`, syncs, renames.
void writeFused(const FusedModel& model, const std::string& path);
/// The same bytes, for programs that keep the file in memory.
void writeFused(const FusedModel& model, std::ostream& stream);
/// Throws Refused where the file is not a fused file, is hostile, or is of a newer format.
FusedModel readFused(const std::string& path);
bool isFusedFile(const std::string& path);

/// Member k as an ordinary TorchScript module: its own names, ties, shapes, dtypes; train() and eval() work.
torch::jit::Module memberModule(const FusedModel& model, size_t k);

/// Members by index, in this order; repeats are refused. Slices every stacked tensor (copies).
FusedModel selectMembers(const FusedModel& model, const std::vector<size_t>& members);
/// `b` behind `a`. Both must come from the same structure.
FusedModel appendMembers(const FusedModel& a, const FusedModel& b);

}  // namespace chorus
