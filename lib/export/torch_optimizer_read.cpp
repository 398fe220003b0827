#include "lib/export/state.h"
#include "lib/export/torch_optimizer.h"
#include "lib/support/names.h"

namespace chorus {
namespace {

using Kind = SavedValue::Kind;

/// The dict of an optimizer in what torch.save wrote.
SavedPtr findDict(const SavedPtr& saved, const std::string& path) {
  const auto fits = [](const SavedPtr& value) {
    return value && value->is(Kind::Dict) && value->find("state") && value->find("param_groups") &&
           value->find("state")->is(Kind::Dict) && value->find("param_groups")->is(Kind::List);
  };
  if (fits(saved)) return saved;
  for (const char* key : {"optimizer", "optimizer_state_dict", "optim"}) {
    const SavedPtr inner = saved->is(Kind::Dict) ? saved->find(key) : nullptr;
    if (fits(inner)) return inner;
  }
  throw Refused(
      error("the file holds no state dict of an optimizer", Place{path})
          .helpWith("torch.save(optimizer.state_dict(), \"optimizer.pt\"), or a dict that "
                    "has it under \"optimizer\""));
}

std::string keysOf(const SavedValue& dict) {
  std::string keys;
  for (const auto& [key, value] : dict.entries) {
    if (key->is(Kind::Text)) keys += (keys.empty() ? "" : ", ") + printable(key->text);
  }
  return keys;
}

/// Reads one member's file.
class Reading {
 public:
  Reading(const std::string& path, const std::string& optimizer, const FusedModel& model, size_t k)
      : path_(path),
        definition_(findOptimizer(optimizer)),
        model_(model),
        k_(k),
        dict_(findDict(readSaved(path), path)) {}

  TorchOptimizer run() {
    TorchOptimizer result;
    result.path = path_;
    result.spec.name = definition_.name;
    const std::vector<SavedPtr>& groups = dict_->find("param_groups")->items;
    if (groups.empty()) throw refuse("the file has no parameter groups");
    std::vector<std::string> names = parameterNames(groups);
    size_t next = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
      readFlags(*groups[g], g, result.spec);
      std::map<std::string, std::vector<double>> values = valuesOf(*groups[g]);
      ParameterGroup group;
      for (const SavedPtr& number : groups[g]->find("params")->items) {
        const std::string name = names.at(next++);
        group.parameters.push_back(name);
        if (const SavedPtr state = stateOf(number)) result.state[name] = state;
      }
      group.values = values;
      if (g == 0) result.spec.values = std::move(values);
      if (g > 0) result.spec.groups.push_back(std::move(group));
    }
    checkOptimizer(result.spec, 1);
    return result;
  }

 private:
  Refused refuse(const std::string& why) const { return Refused(error(why, Place{path_})); }
  Refused foreign(const std::string& why) const {
    return Refused(error("this is no state of torch.optim's '" + definition_.name + "': " + why,
                         Place{path_}));
  }

  double numberUnder(const SavedValue& group, const std::string& key) const {
    const SavedPtr value = group.find(key);
    if (!value) throw foreign("it has no '" + key + "', but " + keysOf(group));
    if (!value->isNumber()) throw foreign("its '" + key + "' is no number");
    return value->toNumber();
  }
  double halfOf(const SavedValue& group, const std::string& key, size_t half) const {
    const SavedPtr pair = group.find(key);
    if (!pair) throw foreign("it has no '" + key + "', but " + keysOf(group));
    const bool good = (pair->is(Kind::Tuple) || pair->is(Kind::List)) && pair->items.size() == 2 &&
                      pair->items[half] && pair->items[half]->isNumber();
    if (!good) throw foreign("its '" + key + "' is no pair of numbers");
    return pair->items[half]->toNumber();
  }

  std::map<std::string, std::vector<double>> valuesOf(const SavedValue& group) const {
    std::map<std::string, std::vector<double>> values;
    for (const Hyperparameter& h : definition_.hyperparameters) {
      const std::string& name = h.name;
      const bool half = name.ends_with('1') || name.ends_with('2');
      if (definition_.name == "adafactor" && name == "eps") {
        values[name] = {halfOf(group, "eps", 1)};
      } else if (half) {
        values[name] = {halfOf(group, name.substr(0, name.size() - 1) + "s", name.ends_with('2'))};
      } else {
        values[name] = {numberUnder(group, name)};
      }
    }
    return values;
  }

  /// Settings without a number; those of all groups have to be equal.
  void readFlags(const SavedValue& group, size_t index, OptimizerSpec& spec) const {
    for (const std::string& flag : definition_.flags) {
      const SavedPtr value = group.find(flag == "match_rms_adamw" ? "adjust_lr_fn" : flag);
      bool on = value && value->isNumber() && value->toNumber() != 0;
      if (flag == "match_rms_adamw") on = value && value->text == flag;
      if (index > 0 && spec.flags.at(flag) != on) {
        throw refuse("the groups differ in '" + flag + "', which holds for all parameters here");
      }
      spec.flags[flag] = on;
    }
    const SavedPtr decoupled = group.find("decoupled_weight_decay");
    const bool adam = definition_.name == "adam" || definition_.name == "adamw";
    if (adam && decoupled && decoupled->integer != (definition_.name == "adamw")) {
      throw foreign(std::string("its weight decay is ") + (decoupled->integer
                                                               ? "decoupled, that is AdamW"
                                                               : "not decoupled, that is Adam"));
    }
    const SavedPtr steps = group.find("ns_steps");
    if (definition_.name == "muon" && steps && steps->integer != 5) {
      throw Refused(
          unsupported("muon with ns_steps = " + std::to_string(steps->integer), Place{path_}));
    }
  }

  SavedPtr stateOf(const SavedPtr& number) const {
    for (const auto& [key, value] : dict_->find("state")->entries) {
      if (key->is(Kind::Integer) && key->integer == number->integer) return value;
    }
    return nullptr;
  }

  /// The prototype's name of each parameter of all groups, in the order of the file.
  std::vector<std::string> parameterNames(const std::vector<SavedPtr>& groups) const {
    size_t count = 0;
    std::vector<std::string> given;
    for (const SavedPtr& group : groups) {
      const SavedPtr params = group->is(Kind::Dict) ? group->find("params") : nullptr;
      if (!params || !params->is(Kind::List)) throw refuse("a parameter group has no 'params'");
      count += params->items.size();
      const SavedPtr names = group->find("param_names");
      if (!names || names->items.size() != params->items.size()) continue;
      for (const SavedPtr& name : names->items) given.push_back(name->text);
    }
    return given.size() == count ? knownNames(given) : namesByOrder(groups, count);
  }

  std::vector<std::string> knownNames(const std::vector<std::string>& given) const {
    std::map<std::string, std::string> known;
    for (size_t i = 0; i < model_.prototype.slots.size(); ++i) {
      const TensorSlot& slot = model_.prototype.slots[i];
      if (slot.role != Role::Parameter) continue;
      known[memberSlotName(model_, k_, i)] = slot.name;
      for (const std::string& alias : slot.aliases) known[alias] = slot.name;
    }
    std::vector<std::string> names;
    for (const std::string& name : given) {
      const auto found = known.find(name);
      if (found == known.end()) {
        throw refuse("the optimizer moves a parameter '" + printable(name) +
                     "', which the model does not have");
      }
      names.push_back(found->second);
    }
    return names;
  }

  std::vector<std::string> namesByOrder(const std::vector<SavedPtr>& groups, size_t count) const {
    std::vector<std::string> all, trained;
    for (const TensorSlot& slot : model_.prototype.slots) {
      if (slot.role != Role::Parameter) continue;
      all.push_back(slot.name);
      if (slot.requires_grad) trained.push_back(slot.name);
    }
    if (groups.size() > 1) {
      throw Refused(error("the file has " + std::to_string(groups.size()) +
                              " parameter groups without names: their order says nothing",
                          Place{path_})
                        .helpWith("make the optimizer of groups of (name, parameter) pairs, as "
                                  "named_parameters() gives them"));
    }
    if (count == all.size()) return all;
    if (count == trained.size()) return trained;
    throw refuse("the optimizer moves " + std::to_string(count) +
                 " parameters, but the model has " + std::to_string(all.size()));
  }

  const std::string& path_;
  const OptimizerDefinition& definition_;
  const FusedModel& model_;
  size_t k_;
  SavedPtr dict_;
};

/// torch.optim's shape of a slot of a parameter [...], and its name.
std::pair<std::string, std::vector<int64_t>> torchSlot(const std::string& optimizer,
                                                       const std::string& slot,
                                                       std::vector<int64_t> sizes) {
  if (optimizer != "adafactor") return {slot, sizes};
  if (sizes.size() < 2) return {"variance", sizes};
  sizes[sizes.size() - (slot == "row_var" ? 1 : 2)] = 1;
  return {slot, sizes};
}

/// Member k's state of one parameter.
class Taking {
 public:
  Taking(FusedModel& model, size_t k, const TorchOptimizer& saved)
      : model_(model), row_(static_cast<int64_t>(k)), saved_(saved) {}

  /// `start`: of the parameter in the flat [K,P].
  void parameter(const DtypeGroup& group, size_t slot, int64_t start) {
    const std::string& name = model_.prototype.slots[slot].name;
    const std::vector<int64_t> sizes = model_.tensors[slot].sizes().slice(1).vec();
    const auto found = saved_.state.find(name);
    if (found == saved_.state.end() || !found->second->is(Kind::Dict)) {
      ++without_;
      return;
    }
    const SavedValue& state = *found->second;
    bool buffers = false;
    for (const StateSlot& mine : stateSlots(*model_.optimizer)) {
      if (!mine.stored) continue;
      const auto [key, wanted] = torchSlot(model_.optimizer->name, mine.name, sizes);
      const SavedPtr value = state.find(key);
      if (!value || value->is(Kind::None)) {
        if (mine.name == "momentum_buffer" || key == "variance") continue;
        throw refuse("the state of '" + name + "' has no '" + key + "'");
      }
      buffers = true;
      at::Tensor flat = model_.state.at(mine.name + group.suffix)[row_];
      if (mine.scalar) {
        if (!value->isNumber()) throw refuse("'" + key + "' of '" + name + "' is no number");
        flat.fill_(value->toNumber());
        continue;
      }
      if (!value->is(Kind::Tensor) || value->tensor.sizes() != at::IntArrayRef(wanted)) {
        throw refuse("'" + key + "' of '" + name + "' " +
                     (value->is(Kind::Tensor) ? c10::str("has sizes ", value->tensor.sizes())
                                              : "is no tensor") +
                     c10::str(", but has to have ", at::IntArrayRef(wanted)));
      }
      const int64_t width = c10::multiply_integers(sizes);
      flat.narrow(0, start, width).view(sizes).copy_(value->tensor.expand(sizes));
    }
    const SavedPtr count = state.find("step");
    steps_.insert({count && count->isNumber() ? static_cast<int64_t>(count->toNumber())
                                              : static_cast<int64_t>(buffers),
                   name});
  }

  void finish() {
    if (steps_.size() > 1) {
      const auto& [few, a] = *steps_.begin();
      const auto& [many, b] = *steps_.rbegin();
      throw refuse("'" + a + "' has taken " + std::to_string(few) + " steps and '" + b + "' " +
                   std::to_string(many) + ", but a member's parameters step together here");
    }
    const int64_t step = steps_.empty() ? 0 : steps_.begin()->first;
    if (step > 0 && without_ > 0) {
      throw refuse(std::to_string(without_) +
                   " parameters have no state, but a member's parameters step together here");
    }
    model_.step[row_].fill_(step);
  }

 private:
  Refused refuse(const std::string& why) const { return Refused(error(why, Place{saved_.path})); }
  FusedModel& model_;
  int64_t row_;
  const TorchOptimizer& saved_;
  std::map<int64_t, std::string> steps_;  ///< steps taken -> one of the parameters
  size_t without_ = 0;
};

}  // namespace

TorchOptimizer readTorchOptimizer(const std::string& path, const std::string& optimizer,
                                  const FusedModel& model, size_t k) {
  return Reading(path, optimizer, model, k).run();
}

void takeTorchState(FusedModel& model, size_t k, const TorchOptimizer& saved) {
  const at::NoGradGuard no_grad;
  const std::vector<size_t> slots = trainableSlots(model);
  Taking taking(model, k, saved);
  for (const DtypeGroup& group : dtypeGroups(model)) {
    for (size_t i = 0; i < group.members.size(); ++i)
      taking.parameter(group, slots[group.members[i]], group.starts[i]);
  }
  taking.finish();
}

}  // namespace chorus
