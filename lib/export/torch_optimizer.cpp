#include "lib/export/torch_optimizer.h"

#include <torch/csrc/jit/ir/ir.h>

#include "lib/export/alone.h"
#include "lib/export/state.h"
#include "lib/support/fault.h"

namespace chorus {
namespace {

using Dict = c10::impl::GenericDict;

Dict stringDict() { return Dict(c10::StringType::get(), c10::AnyType::get()); }

/// Place of each slot among the parameters, and of all parameters by group.
struct Numbers {
  std::map<size_t, int64_t> of_slot;
  std::vector<std::vector<size_t>> by_group;  ///< slots
};

Numbers numbersOf(const FusedModel& model) {
  Numbers numbers;
  numbers.by_group.resize(model.optimizer->groups.size() + 1);
  int64_t next = 0;
  for (size_t i = 0; i < model.prototype.slots.size(); ++i) {
    const TensorSlot& slot = model.prototype.slots[i];
    if (slot.role != Role::Parameter) continue;
    size_t group = 0;
    for (size_t g = 0; g < model.optimizer->groups.size(); ++g) {
      const auto& names = model.optimizer->groups[g].parameters;
      if (std::count(names.begin(), names.end(), slot.name)) group = g + 1;
    }
    numbers.of_slot[i] = next++;
    numbers.by_group[group].push_back(i);
  }
  return numbers;
}

/// "beta1" and "beta2" are the pair "betas".
void insertValues(Dict& group, const std::map<std::string, std::vector<double>>& values, size_t k) {
  for (const auto& [name, numbers] : values) {
    if (name.ends_with('2')) continue;
    if (!name.ends_with('1')) {
      group.insert(name, numbers.at(k));
      continue;
    }
    const std::string stem = name.substr(0, name.size() - 1);
    group.insert(stem + "s",
                 c10::ivalue::Tuple::create(numbers.at(k), values.at(stem + "2").at(k)));
  }
}

/// Settings that torch.optim has and chorus has in another form, or only with their defaults.
void insertSettings(Dict& group, const OptimizerSpec& spec, double eps) {
  for (const auto& [flag, on] : spec.flags) {
    if (flag != "match_rms_adamw") group.insert(flag, on);
  }
  if (spec.name == "adam") group.insert("decoupled_weight_decay", false);
  if (spec.name == "adamw") group.insert("decoupled_weight_decay", true);
  if (spec.name == "adafactor") {
    group.insert_or_assign("eps", c10::ivalue::Tuple::create(c10::IValue(), eps));
  }
  if (spec.name == "muon") {
    const bool matches = spec.flags.count("match_rms_adamw") && spec.flags.at("match_rms_adamw");
    group.insert("ns_coefficients", c10::ivalue::Tuple::create(3.4445, -4.775, 2.0315));
    group.insert("ns_steps", 5);
    group.insert("adjust_lr_fn", std::string(matches ? "match_rms_adamw" : "original"));
  }
}

c10::IValue groupsOf(const FusedModel& model, const Numbers& numbers, size_t k) {
  c10::impl::GenericList groups(c10::AnyType::get());
  for (size_t g = 0; g < numbers.by_group.size(); ++g) {
    if (g == 0 && numbers.by_group.size() > 1 && numbers.by_group[0].empty()) continue;
    const auto& values = hyperValues(*model.optimizer, g);
    Dict group = stringDict();
    insertValues(group, values, k);
    insertSettings(group, *model.optimizer, values.count("eps") ? values.at("eps").at(k) : 0);
    c10::impl::GenericList params(c10::AnyType::get()), names(c10::AnyType::get());
    for (const size_t slot : numbers.by_group[g]) {
      params.push_back(numbers.of_slot.at(slot));
      names.push_back(memberSlotName(model, k, slot));
    }
    group.insert("params", params);
    group.insert("param_names", names);
    groups.push_back(group);
  }
  return groups;
}

/// The slots of one parameter [..]: flat [P] of chorus to the shapes of torch.optim.
void insertSlot(Dict& state, const std::string& optimizer, const std::string& name,
                const at::Tensor& value) {
  if (optimizer != "adafactor") {
    state.insert(name, value.clone());
  } else if (value.dim() < 2) {
    if (name == "row_var") state.insert("variance", value.clone());
  } else {
    state.insert(name, value.narrow(name == "row_var" ? -1 : -2, 0, 1).clone());
  }
}

/// Whether torch.optim keeps this slot: buffers of a momentum of 0 it does not.
bool isKept(const FusedModel& model, const DtypeGroup& group, const StateSlot& slot, size_t k) {
  if (!slot.stored) return false;
  const std::string& name = model.optimizer->name;
  if (slot.name != "momentum_buffer" || (name != "sgd" && name != "rmsprop")) return true;
  return hyperValues(*model.optimizer, group.hyper).at("momentum").at(k) != 0;
}

bool countsSteps(const OptimizerSpec& spec) {
  return spec.name != "sgd" && spec.name != "muon" && spec.name != "lars" && spec.name != "lion";
}

c10::IValue statesOf(const FusedModel& model, const Numbers& numbers, size_t k) {
  const auto row = static_cast<int64_t>(fault("torch_state_of_member_zero") ? 0 : k);
  const int64_t step = model.step[row].item<int64_t>();
  Dict states(c10::IntType::get(), c10::AnyType::get());
  if (step == 0) return states;
  const auto tensors = optimizerState(model);
  const std::vector<size_t> slots = trainableSlots(model);
  for (const DtypeGroup& group : dtypeGroups(model)) {
    for (size_t i = 0; i < group.members.size(); ++i) {
      const size_t index = group.members[i];
      const at::Tensor whole = model.tensors[slots[index]].detach();
      const int64_t width = whole.numel() / whole.size(0);
      Dict state = stringDict();
      for (const StateSlot& slot : stateSlots(*model.optimizer)) {
        if (!isKept(model, group, slot, k)) continue;
        const at::Tensor& flat = tensors.at(slot.name + group.suffix);
        if (slot.scalar) {
          state.insert(slot.name, flat[row][0].to(at::kFloat).clone());
        } else {
          insertSlot(state, model.optimizer->name, slot.name,
                     flat[row].narrow(0, group.starts[i], width).view(whole.sizes().slice(1)));
        }
      }
      if (countsSteps(*model.optimizer)) {
        state.insert("step", at::scalar_tensor(static_cast<double>(step), at::kFloat));
      }
      states.insert(numbers.of_slot.at(slots[index]), state);
    }
  }
  return states;
}

}  // namespace

std::string memberSlotName(const FusedModel& model, size_t k, size_t slot) {
  if (model.own_names.empty()) return model.prototype.slots.at(slot).name;
  return model.own_names.at(k).slots.at(slot).front();
}

c10::IValue torchOptimizerState(const FusedModel& model, size_t k) {
  if (!model.optimizer) throw Refused(error("the file has no optimizer"));
  if (!model.partial.empty()) return torchOptimizerState(memberAlone(model, k), 0);
  const Numbers numbers = numbersOf(model);
  Dict all = stringDict();
  all.insert("state", statesOf(model, numbers, k));
  all.insert("param_groups", groupsOf(model, numbers, k));
  return all;
}

}  // namespace chorus
