#include "lib/export/state.h"

#include "lib/batching/regions.h"

namespace chorus {

std::vector<size_t> trainableSlots(const FusedModel& model) {
  const CanonicalGraph& train = model.prototype.train;
  const std::set<const Value*> reached = readByOutputs(train);
  std::vector<size_t> slots;
  for (size_t i = 0; i < model.prototype.slots.size(); ++i) {
    const TensorSlot& slot = model.prototype.slots[i];
    const bool moves = slot.role == Role::Parameter && slot.requires_grad;
    if (moves && reached.count(train.slotInput(i))) slots.push_back(i);
  }
  return slots;
}

std::string hyperSuffix(size_t hyper) { return hyper ? "_g" + std::to_string(hyper) : ""; }

const std::map<std::string, std::vector<double>>& hyperValues(const OptimizerSpec& spec,
                                                              size_t hyper) {
  return hyper ? spec.groups.at(hyper - 1).values : spec.values;
}

namespace {

size_t hyperOf(const FusedModel& model, size_t slot) {
  if (!model.optimizer) return 0;
  const std::string& name = model.prototype.slots[slot].name;
  const std::vector<ParameterGroup>& groups = model.optimizer->groups;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (std::count(groups[g].parameters.begin(), groups[g].parameters.end(), name)) return g + 1;
  }
  return 0;
}

}  // namespace

std::vector<DtypeGroup> dtypeGroups(const FusedModel& model) {
  std::vector<DtypeGroup> groups;
  const std::vector<size_t> slots = trainableSlots(model);
  for (size_t i = 0; i < slots.size(); ++i) {
    const at::Tensor& tensor = model.tensors[slots[i]];
    const at::ScalarType dtype = tensor.scalar_type();
    const size_t hyper = hyperOf(model, slots[i]);
    auto group = std::find_if(groups.begin(), groups.end(), [&](const DtypeGroup& g) {
      return g.dtype == dtype && g.hyper == hyper;
    });
    if (group == groups.end()) {
      const bool first = groups.empty() || groups.front().dtype == dtype;
      const std::string suffix = (first ? "" : "_" + dtypeName(dtype)) + hyperSuffix(hyper);
      group = groups.insert(groups.end(), {dtype, hyper, suffix, {}, {}, 0});
    }
    group->members.push_back(i);
    group->starts.push_back(group->width);
    group->width += tensor.numel() / static_cast<int64_t>(model.k());
  }
  return groups;
}

namespace {

void requireTrainable(const FusedModel& model) {
  for (const size_t i : trainableSlots(model)) {
    const TensorSlot& slot = model.prototype.slots[i];
    if (!model.stacked[i]) {
      throw Refused(unsupported("the parameter '" + slot.name + "' is shared by all members"));
    }
    if (model.optimizer->name == "muon" && model.tensors[i].dim() != 3) {
      throw Refused(error("the optimizer 'muon' moves matrices only, but the parameter '" +
                          slot.name + "' has rank " + std::to_string(model.tensors[i].dim() - 1)));
    }
    if (!at::isFloatingType(model.tensors[i].scalar_type())) {
      throw Refused(unsupported("the parameter '" + slot.name + "' is " +
                                dtypeName(model.tensors[i].scalar_type()) +
                                "; optimizers take real floating parameters"));
    }
  }
}

}  // namespace

std::map<std::string, at::Tensor> optimizerState(const FusedModel& model) {
  std::map<std::string, at::Tensor> state;
  if (!model.optimizer) return state;
  requireTrainable(model);
  const auto k = static_cast<int64_t>(model.k());
  for (const DtypeGroup& group : dtypeGroups(model)) {
    for (const StateSlot& slot : stateSlots(*model.optimizer)) {
      if (!slot.stored) continue;
      const std::string name = slot.name + group.suffix;
      const std::vector<int64_t> sizes = {k, slot.scalar ? 1 : group.width};
      const auto found = model.state.find(name);
      if (found == model.state.end()) {
        const at::Device device = model.active.device();
        const auto dtype = slot.scalar ? at::kDouble : group.dtype;
        state[name] = at::zeros(sizes, at::TensorOptions(dtype).device(device));
        continue;
      }
      if (found->second.sizes() != at::IntArrayRef(sizes)) {
        throw Refused(internalError("the optimizer state '" + name + "' has a wrong shape"));
      }
      state[name] = found->second;
    }
  }
  return state;
}

void resetState(FusedModel& model) {
  model.state.clear();
  model.step = at::zeros_like(model.active, at::kLong);
  model.state = optimizerState(model);
}

std::string constantName(const FusedModel& model, size_t slot) {
  size_t index = 0;
  for (size_t i = 0; i < slot; ++i) index += model.prototype.slots[i].role == Role::Constant;
  return "constant_" + std::to_string(index);
}

LossRequest lossRequest(const FusedModel& model) {
  const CanonicalGraph& train = model.prototype.train;
  LossRequest request;
  if (model.loss) request.spec = *model.loss;
  request.k = model.k();
  for (size_t i = 0; i < train.n_outputs; ++i) {
    const auto type = train.graph->outputs()[i]->type()->cast<c10::TensorType>();
    if (!type || !type->dim() || !type->scalarType()) {
      throw Refused(
          internalError("the rank or dtype of output " + std::to_string(i) + " is unknown"));
    }
    request.output_ranks.push_back(*type->dim());
    request.output_dtypes.push_back(*type->scalarType());
    auto& sizes = request.output_sizes.emplace_back();
    for (size_t d = 0; d < *type->dim(); ++d) sizes.push_back(type->sizes()[d]);
  }
  return request;
}

LossCode buildLoss(const FusedModel& model) {
  return findLoss(model.loss->name).build(lossRequest(model));
}

}  // namespace chorus
