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

/// Which number a member's own graph gives the i-th random node of the prototype's graph.
struct RandomNodes {
  std::vector<int64_t> train, eval;
  bool operator==(const RandomNodes&) const = default;
};

/// A number written in the graphs that differs between members (fusion contract C4): an argument of
/// ops of the prototype's graphs, which hold any one of the values as a stand-in.
struct VaryingNumber {
  struct Place {
    bool eval = false;   ///< of the eval graph
    size_t op = 0;       ///< index among the nodes that are aten ops, in graph order
    std::string name;    ///< "aten::dropout"
    size_t operand = 0;  ///< in schema order
  };
  at::Tensor values;  ///< [K] f64, or i64 where all are ints
  std::vector<Place> places;
};

/// Where a tensor of a member is in a model whose members differ in places.
struct OwnTensor {
  TensorSlot slot;             ///< the member's own names, role and gradient flag; no value
  size_t in = 0;               ///< slot of the prototype
  std::vector<int64_t> sizes;  ///< the member's own
  /// The prototype's slot is a row of numbers, of which the first are this tensor's, row-major; the
  /// others are zero and nothing moves them.
  bool packed = false;
};

/// A member of chorus-fuse --partial.
struct PartialMember {
  size_t variant = 0;              ///< its block of each chorus::choice of the prototype's graphs
  std::vector<OwnTensor> tensors;  ///< in its own slot order
  std::vector<ModuleRecord> modules;
  bool traced = false;
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
  /// One per member where members number their random nodes differently; empty: all like the
  /// prototype.
  std::vector<RandomNodes> random_nodes;
  std::vector<VaryingNumber> varying;
  /// One per member where they differ in places (chorus-fuse --partial): the prototype's graphs
  /// have chorus::choice nodes (lib/support/choice.h) with one block per variant. Else empty.
  std::vector<PartialMember> partial;
  std::optional<LossSpec> loss;
  std::optional<OptimizerSpec> optimizer;
  at::Tensor active;  ///< [K] bool
  at::Tensor step;    ///< [K] int64: updates done, per member
  /// Optimizer state: "exp_avg" -> [K,P]; of a further dtype group "exp_avg_f64", ...
  std::map<std::string, at::Tensor> state;
  /// Further tensors [K,...] that a file carries under "chorus.extra": of a checkpoint, moving
  /// averages.
  std::map<std::string, at::Tensor> extra;
  nlohmann::json info;  ///< certificate, content hashes, versions: goes to chorus.json as it is

  size_t k() const { return member_names.size(); }
};

/// Slots that training moves: parameters that require a gradient and that the train graph's outputs
/// depend on.
std::vector<size_t> trainableSlots(const FusedModel& model);

struct BuildOptions {
  /// Draw masks from counters (chorus:: ops of the runtime) instead of PyTorch's generator. Such a
  /// module cannot be saved.
  bool counter_based_random = false;
  std::set<std::string> disabled;  ///< passes and rules
  std::vector<Decision>* decisions = nullptr;
};

/// Stacks members that are proved equal. Constants (role Constant) stay shared where all members
/// have the same. Slots correspond by position, or as the certificate says; numbers that differ are
/// those that it lists.
FusedModel stackMembers(const std::vector<Member>& members,
                        const Certificate* certificate = nullptr);

/// Fresh optimizer state: zeros for every slot of `model.optimizer`, and step 0. Without it the
/// module starts with zeros that `model.state` does not hold. Names: "exp_avg" for the first dtype
/// of the trainable parameters, "exp_avg_f64", ... for further ones.
void resetState(FusedModel& model);

/// What the loss of `model` is built for (to ask its TargetRule, for instance).
LossRequest lossRequest(const FusedModel& model);

/// The module of docs/contract.md section 3. It holds the very tensors of `model`: training it
/// moves them.
torch::jit::Module buildModule(const FusedModel& model, const BuildOptions& options = {});

/// Module::save's extra files of a plain member: its seed, and its optimizer with state if there is
/// one and it has taken a step. `readMemberRecord` reads them.
std::map<std::string, std::string> memberRecord(const FusedModel& model, size_t k);
/// What a plain archive carries of an earlier run.
struct MemberRecord {
  std::optional<uint64_t> seed;
  std::optional<OptimizerSpec> optimizer;  ///< K = 1
  int64_t step = 0;
  std::map<std::string, at::Tensor> state;  ///< [1,...], as FusedModel::state
};
/// Empty where the archive has none. Throws Refused (error) where it is damaged.
MemberRecord readMemberRecord(const std::string& path);

/// Writes to a temporary file beside `path`, syncs, renames.
void writeFused(const FusedModel& model, const std::string& path);
/// The same bytes, for programs that keep the file in memory.
void writeFused(const FusedModel& model, std::ostream& stream);
/// Throws Refused where the file is not a fused file, is hostile, or is of a newer format.
FusedModel readFused(const std::string& path);
bool isFusedFile(const std::string& path);

/// Member k as an ordinary TorchScript module: its own names, ties, shapes, dtypes; train() and
/// eval() work.
torch::jit::Module memberModule(const FusedModel& model, size_t k);

/// Members by index, in this order; repeats are refused. Slices every stacked tensor (copies).
FusedModel selectMembers(const FusedModel& model, const std::vector<size_t>& members);
/// `b` behind `a`. Both must come from the same structure.
FusedModel appendMembers(const FusedModel& a, const FusedModel& b);

}  // namespace chorus
