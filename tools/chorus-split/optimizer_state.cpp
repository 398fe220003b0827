#include "tools/chorus-split/optimizer_state.h"

#include <torch/csrc/jit/ir/ir.h>

#include "lib/export/state.h"

namespace chorus {
namespace {

using Dict = c10::impl::GenericDict;

Dict stringDict() { return Dict(c10::StringType::get(), c10::AnyType::get()); }

/// Place of each slot among the parameters, and of all parameters by group.
struct Numbers {
  std::map<size_t, int64_t> of_slot;
  std::vector<std::vector<int64_t>> by_group;
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
    numbers.of_slot[i] = next;
    numbers.by_group[group].push_back(next++);
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

c10::IValue groupsOf(const FusedModel& model, const Numbers& numbers, size_t k) {
  c10::impl::GenericList groups(c10::AnyType::get());
  for (size_t g = 0; g < numbers.by_group.size(); ++g) {
    if (g == 0 && numbers.by_group.size() > 1 && numbers.by_group[0].empty()) continue;
    Dict group = stringDict();
    insertValues(group, hyperValues(*model.optimizer, g), k);
    for (const auto& [flag, on] : model.optimizer->flags) group.insert(flag, on);
    c10::impl::GenericList params(c10::AnyType::get());
    for (const int64_t index : numbers.by_group[g]) params.push_back(index);
    group.insert("params", params);
    groups.push_back(group);
  }
  return groups;
}

c10::IValue statesOf(const FusedModel& model, const Numbers& numbers, size_t k) {
  const auto row = static_cast<int64_t>(k);
  const int64_t step = model.step[row].item<int64_t>();
  Dict states(c10::IntType::get(), c10::AnyType::get());
  if (step == 0) return states;
  const auto tensors = optimizerState(model);
  const std::vector<size_t> slots = trainableSlots(model);
  for (const DtypeGroup& group : dtypeGroups(model)) {
    int64_t start = 0;
    for (const size_t index : group.members) {
      const at::Tensor whole = model.tensors[slots[index]].detach();
      const int64_t width = whole.numel() / whole.size(0);
      Dict state = stringDict();
      for (const StateSlot& slot : stateSlots(*model.optimizer)) {
        if (!slot.stored) continue;
        const at::Tensor& flat = tensors.at(slot.name + group.suffix);
        state.insert(slot.name,
                     slot.scalar
                         ? flat[row][0].to(at::kFloat).clone()
                         : flat[row].narrow(0, start, width).view(whole.sizes().slice(1)).clone());
      }
      if (model.optimizer->name != "sgd") {
        state.insert("step", at::scalar_tensor(static_cast<double>(step), at::kFloat));
      }
      states.insert(numbers.of_slot.at(slots[index]), state);
      start += width;
    }
  }
  return states;
}

}  // namespace

c10::IValue torchOptimizerState(const FusedModel& model, size_t k) {
  if (!model.optimizer) throw Refused(error("the file has no optimizer"));
  const Numbers numbers = numbersOf(model);
  Dict all = stringDict();
  all.insert("state", statesOf(model, numbers, k));
  all.insert("param_groups", groupsOf(model, numbers, k));
  return all;
}

}  // namespace chorus
