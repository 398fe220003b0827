#include "runtime/recalibrate.h"

#include "chorus/import.h"
#include "lib/export/state.h"
#include "lib/export/varying.h"
#include "lib/support/fault.h"
#include "runtime/executor.h"

namespace chorus {
namespace {

const char* const kBatchNorm = "aten::_native_batch_norm_legit_functional";
constexpr size_t kMomentum = 6, kRunningMean = 3;

bool isBatchNorm(const Node* node) {
  return std::string_view(node->kind().toQualString()) == kBatchNorm;
}

void refuseNested(const torch::jit::Block* block, bool nested) {
  for (const Node* node : block->nodes()) {
    if (nested && isBatchNorm(node)) {
      throw Refused(
          unsupported("statistics of a batch norm inside a branch or loop cannot be measured anew",
                      placeOf(node)));
    }
    for (const torch::jit::Block* inner : node->blocks()) refuseNested(inner, true);
  }
}

/// A buffer that holds a running statistic.
struct Statistic {
  Node* norm;
  size_t input;  ///< of `norm`, the mean's or the variance's
  size_t slot;
  size_t update;  ///< index into CanonicalGraph::updates
};

/// A script without momentum works its averages out behind the norm: the slot tells which it is.
std::vector<Statistic> statisticsOf(const CanonicalGraph& train) {
  std::vector<Statistic> found;
  for (Node* node : train.graph->nodes()) {
    if (!isBatchNorm(node)) continue;
    for (const size_t input : {kRunningMean, kRunningMean + 1}) {
      const Value* buffer = node->input(input);
      for (size_t j = 0; j < train.updates.size(); ++j) {
        const size_t slot = train.updates[j];
        if (train.slotInput(slot) == buffer) found.push_back({node, input, slot, j});
      }
    }
  }
  return found;
}

/// Momenta that differ between members are 1 too.
void setVarying(FusedModel& model) {
  std::vector<VaryingNumber> split;
  for (VaryingNumber& number : model.varying) {
    VaryingNumber momenta{at::ones_like(number.values), {}}, others{number.values, {}};
    for (const VaryingNumber::Place& place : number.places) {
      const bool is_momentum =
          place.operand == kMomentum &&
          isBatchNorm(varyingNode(
              *(place.eval ? model.prototype.eval : model.prototype.train).graph, place));
      (is_momentum ? momenta : others).places.push_back(place);
    }
    for (const VaryingNumber& part : {momenta, others}) {
      if (!part.places.empty()) split.push_back(part);
    }
  }
  model.varying = std::move(split);
}

/// The same tensors, with a train graph whose running statistics are those of the batch.
FusedModel ofBatchesAlone(const FusedModel& model) {
  FusedModel copy = model;
  CanonicalGraph& train = copy.prototype.train;
  train.graph = train.graph->copy();
  setVarying(copy);
  for (const Statistic& statistic : statisticsOf(train)) {
    const torch::jit::WithInsertPoint before(statistic.norm);
    statistic.norm->replaceInput(kMomentum, train.graph->insertConstant(1.0));
    train.graph->return_node()->replaceInput(train.n_outputs + statistic.update,
                                             statistic.norm->output(statistic.input));
  }
  return copy;
}

at::Tensor rowsOf(const at::Tensor& tensor, const SubGroup& group) {
  return tensor.detach().narrow(0, static_cast<int64_t>(group.begin),
                                static_cast<int64_t>(group.count));
}

}  // namespace

bool hasBatchNorms(const FusedModel& model) { return !statisticsOf(model.prototype.train).empty(); }

void checkRecalibration(const FusedModel& model) {
  const CanonicalGraph& train = model.prototype.train;
  refuseNested(train.graph->block(), false);
  for (const Node* node : train.graph->nodes()) {
    if (!isBatchNorm(node) || node->input(kRunningMean)->node()->kind() == c10::prim::Param)
      continue;
    throw Refused(unsupported(
        "statistics of a batch norm that is used twice cannot be measured anew", placeOf(node)));
  }
}

void recalibrate(FusedModel& model, const EpochPlan& plan, uint64_t seed,
                 const std::vector<bool>& members, const std::vector<int64_t>& micro_steps) {
  const at::NoGradGuard no_grad;
  FusedModel batches = ofBatchesAlone(model);
  std::vector<size_t> slots;
  for (const Statistic& statistic : statisticsOf(batches.prototype.train)) {
    slots.push_back(statistic.slot);
  }
  std::vector<at::Tensor> means, before;
  for (const size_t slot : slots) {
    before.push_back(model.tensors[slot].detach().clone());
    means.push_back(at::zeros_like(before.back()));
  }
  const at::Tensor active = model.active.clone(), chosen = at::zeros_like(model.active);
  for (size_t k = 0; k < model.k(); ++k) chosen[static_cast<int64_t>(k)] = members[k];
  model.active.copy_(chosen);
  const auto each = [&](size_t k, const at::Tensor& tensor) {
    return tensor[static_cast<int64_t>(k)];
  };
  // As Module.reset_running_stats: counters begin at 0, what is not finite is forgotten.
  const CanonicalGraph& train = batches.prototype.train;
  for (const size_t slot : train.updates) {
    const at::Tensor buffer = model.tensors[slot].detach();
    const bool statistic = std::count(slots.begin(), slots.end(), slot) > 0;
    const bool counter = buffer.scalar_type() == at::kLong &&
                         model.prototype.slots[slot].name.ends_with("num_batches_tracked");
    for (size_t k = 0; k < model.k() && (statistic || counter); ++k) {
      if (members[k]) each(k, buffer).zero_();
    }
  }
  std::map<std::pair<size_t, size_t>, std::unique_ptr<Executor>> executors;
  for (int64_t step = 0; step < plan.steps(); ++step) {
    for (const SubGroup& group : plan.groups(step)) {
      auto& executor = executors[{group.begin, group.count}];
      if (!executor) {
        const bool all = group.count == model.k();
        executor = std::make_unique<Executor>(
            all ? batches : viewMembers(batches, group.begin, group.count), seed);
        executor->train();
      }
      executor->random().steps.clear();
      for (size_t i = 0; i < group.count; ++i) {
        executor->random().steps.push_back(micro_steps[group.begin + i] + step);
      }
      executor->outputs(plan.batch(group, step));
      const double share = fault("last_batch_counts_alone") ? 1 : 1 / static_cast<double>(step + 1);
      for (size_t s = 0; s < slots.size(); ++s) {
        at::Tensor mean = rowsOf(means[s], group);
        mean.mul_(1 - share).add_(rowsOf(model.tensors[slots[s]], group), share);
      }
    }
  }
  for (size_t s = 0; s < slots.size(); ++s) {
    at::Tensor buffer = model.tensors[slots[s]].detach();
    for (size_t k = 0; k < model.k(); ++k) {
      each(k, buffer).copy_(each(k, members[k] ? means[s] : before[s]));
    }
  }
  model.active.copy_(active);
}

}  // namespace chorus
