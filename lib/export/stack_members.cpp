#include "chorus/fused_model.h"
#include "lib/export/align_varying.h"
#include "lib/export/random_nodes.h"
#include "lib/export/state.h"
#include "lib/export/varying.h"
#include "lib/support/hash.h"

namespace chorus {

namespace {

[[noreturn]] void unequal(const Member& member, const std::string& what) {
  throw Refused(internalError("member '" + member.name + "' was proved equal, but " + what));
}

void checkSlot(const Member& member, const TensorSlot& slot, const TensorSlot& first) {
  const bool equal = slot.role == first.role && slot.requires_grad == first.requires_grad &&
                     slot.value.sizes() == first.value.sizes() &&
                     slot.value.scalar_type() == first.value.scalar_type() &&
                     slot.aliases.size() == first.aliases.size();
  if (!equal) unequal(member, "'" + slot.name + "' differs from '" + first.name + "'");
}

OwnNames ownNames(const Member& member, const std::vector<uint32_t>* slots = nullptr) {
  OwnNames names;
  names.modules = member.modules;
  for (size_t i = 0; i < member.slots.size(); ++i) {
    const TensorSlot& slot = member.slots[slots ? slots->at(i) : i];
    names.slots.push_back({slot.name});
    names.slots.back().insert(names.slots.back().end(), slot.aliases.begin(), slot.aliases.end());
  }
  return names;
}

/// To the last bit.
bool allEqual(const std::vector<at::Tensor>& values) {
  const uint64_t first = hashTensor(values.at(0));
  return std::all_of(values.begin() + 1, values.end(), [&](const at::Tensor& value) {
    return value.is_same(values[0]) || hashTensor(value) == first;
  });
}

}  // namespace

FusedModel stackMembers(const std::vector<Member>& members, const Certificate* certificate) {
  if (members.empty()) throw Refused(internalError("there are no members to stack"));
  FusedModel model;
  model.prototype = members[0];
  for (TensorSlot& slot : model.prototype.slots) {
    if (slot.role != Role::Constant) slot.value = at::Tensor();
  }
  for (const Member& member : members) {
    model.member_names.push_back(member.name);
    model.member_seeds.push_back(member.seed);
    if (member.slots.size() != members[0].slots.size()) unequal(member, "has other tensors");
  }
  for (size_t k = 0; k < members.size(); ++k) {
    model.own_names.push_back(
        ownNames(members[k], certificate ? &certificate->members.at(k).slots : nullptr));
  }
  const auto likeFirst = [&](const OwnNames& names) {
    return names.slots == model.own_names[0].slots;
  };
  if (std::all_of(model.own_names.begin(), model.own_names.end(), likeFirst))
    model.own_names.clear();
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < members[0].slots.size(); ++i) {
    const TensorSlot& first = members[0].slots[i];
    std::vector<at::Tensor> values;
    for (size_t k = 0; k < members.size(); ++k) {
      const size_t at = certificate ? certificate->members.at(k).slots.at(i) : i;
      const TensorSlot& slot = members[k].slots.at(at);
      checkSlot(members[k], slot, first);
      values.push_back(slot.value.detach());
    }
    const bool shared = first.role == Role::Constant && allEqual(values);
    model.stacked.push_back(!shared);
    model.tensors.push_back(shared ? values[0].clone() : at::stack(values));
  }
  if (certificate) model.varying = varyingNumbers(*certificate, members[0]);
  const auto k = static_cast<int64_t>(members.size());
  model.active = at::ones({k}, at::kBool);
  model.step = at::zeros({k}, at::kLong);
  return model;
}

namespace {

/// Entries `members` of dim 0 of everything that is stacked, by `take`.
template <typename Take>
FusedModel mapStacked(const FusedModel& model, const Take& take) {
  const at::NoGradGuard no_grad;
  FusedModel out = model;
  for (size_t i = 0; i < out.tensors.size(); ++i) {
    const at::Tensor tensor = model.tensors[i].detach();
    out.tensors[i] = model.stacked[i] ? take(tensor) : tensor.clone();
  }
  out.active = take(model.active);
  out.step = take(model.step);
  for (VaryingNumber& number : out.varying) number.values = take(number.values);
  for (auto& [name, tensor] : out.state) tensor = take(tensor);
  for (auto& [name, tensor] : out.extra) tensor = take(tensor);
  return out;
}

template <typename T>
std::vector<T> chosen(const std::vector<T>& values, const std::vector<size_t>& members) {
  std::vector<T> out;
  for (const size_t m : members) out.push_back(values.at(m));
  return out;
}

/// Does this tensor argument of a loss have a row per member? The rank decides, as in the loss
/// itself.
bool isStackedArgument(const FusedModel& model, const std::string& name) {
  const LossCode code = findLoss(model.loss->name).build(lossRequest(model));
  return code.constants.count("loss_" + name) > 0;
}

}  // namespace

namespace {

/// The members' own lists, and by `take` what is stacked.
template <typename Take>
FusedModel takeMembers(const FusedModel& model, const std::vector<size_t>& members,
                       const Take& take) {
  FusedModel out = mapStacked(model, take);
  out.member_names = chosen(model.member_names, members);
  out.member_seeds = chosen(model.member_seeds, members);
  if (!out.own_names.empty()) out.own_names = chosen(model.own_names, members);
  if (!out.random_nodes.empty()) out.random_nodes = chosen(model.random_nodes, members);
  if (!out.partial.empty()) out.partial = chosen(model.partial, members);
  if (out.optimizer) {
    for (auto& [name, values] : out.optimizer->values) values = chosen(values, members);
    for (ParameterGroup& group : out.optimizer->groups) {
      for (auto& [name, values] : group.values) values = chosen(values, members);
    }
  }
  if (!out.loss) return out;
  for (auto& [name, values] : out.loss->arguments) {
    if (values.size() > 1) values = chosen(values, members);
  }
  for (auto& [name, tensor] : out.loss->tensors) {
    if (isStackedArgument(model, name)) tensor = take(tensor);
  }
  return out;
}

}  // namespace

FusedModel viewMembers(const FusedModel& model, size_t begin, size_t count) {
  std::vector<size_t> members;
  for (size_t k = 0; k < count; ++k) members.push_back(begin + k);
  return takeMembers(model, members, [&](const at::Tensor& t) {
    return t.narrow(0, static_cast<int64_t>(begin), static_cast<int64_t>(count));
  });
}

FusedModel selectMembers(const FusedModel& model, const std::vector<size_t>& members) {
  if (members.empty()) throw Refused(error("no members are selected"));
  std::set<size_t> seen;
  for (const size_t m : members) {
    if (m >= model.k()) {
      throw Refused(
          error("there is no member " + std::to_string(m) + " of " + std::to_string(model.k())));
    }
    if (!seen.insert(m).second) {
      throw Refused(error("member " + std::to_string(m) + " is selected twice"));
    }
  }
  const std::vector<int64_t> rows(members.begin(), members.end());
  const auto take = [&](const at::Tensor& t) {
    return t.index_select(0, at::tensor(rows, at::kLong).to(t.device()));
  };
  return takeMembers(model, members, take);
}

namespace {

void requireSame(bool same, const std::string& what) {
  if (!same) throw Refused(error("the two fused models differ in their " + what));
}

void requireAppendable(const FusedModel& a, const FusedModel& b) {
  requireSame(
      a.stacked == b.stacked && a.prototype.output == b.prototype.output &&
          a.prototype.train.graph->toString(false) == b.prototype.train.graph->toString(false) &&
          a.prototype.eval.graph->toString(false) == b.prototype.eval.graph->toString(false),
      "structure");
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const auto rest = [&](const FusedModel& m) {
      return m.stacked[i] ? m.tensors[i].sizes().slice(1) : m.tensors[i].sizes();
    };
    requireSame(rest(a) == rest(b) && a.tensors[i].dtype() == b.tensors[i].dtype(),
                "tensor '" + a.prototype.slots[i].name + "'");
    requireSame(a.stacked[i] || at::equal(a.tensors[i], b.tensors[i]),
                "constant '" + a.prototype.slots[i].name + "'");
  }
  requireSame(a.loss.has_value() == b.loss.has_value() && (!a.loss || a.loss->name == b.loss->name),
              "loss");
  requireSame(a.optimizer.has_value() == b.optimizer.has_value() &&
                  (!a.optimizer || (a.optimizer->name == b.optimizer->name &&
                                    a.optimizer->flags == b.optimizer->flags)),
              "optimizer");
  if (!a.optimizer) return;
  requireSame(a.optimizer->groups.size() == b.optimizer->groups.size(), "parameter groups");
  for (size_t g = 0; g < a.optimizer->groups.size(); ++g) {
    requireSame(a.optimizer->groups[g].parameters == b.optimizer->groups[g].parameters,
                "parameter groups");
  }
}

std::vector<std::string> perMember(const LossSpec& spec, const std::string& name, size_t k) {
  const auto found = spec.arguments.find(name);
  requireSame(found != spec.arguments.end(), "loss argument '" + name + "'");
  return found->second.size() == k ? found->second : std::vector<std::string>(k, found->second[0]);
}

LossSpec appendLoss(const FusedModel& a, const FusedModel& b) {
  LossSpec out = *a.loss;
  requireSame(out.arguments.size() == b.loss->arguments.size() &&
                  out.tensors.size() == b.loss->tensors.size(),
              "loss arguments");
  for (auto& [name, values] : out.arguments) {
    std::vector<std::string> mine = perMember(*a.loss, name, a.k());
    const std::vector<std::string> theirs = perMember(*b.loss, name, b.k());
    mine.insert(mine.end(), theirs.begin(), theirs.end());
    const bool equal = std::set<std::string>(mine.begin(), mine.end()).size() == 1;
    values = equal ? std::vector<std::string>{mine[0]} : mine;
  }
  for (auto& entry : out.tensors) {
    const std::string& name = entry.first;
    at::Tensor& tensor = entry.second;
    const auto found = b.loss->tensors.find(name);
    requireSame(found != b.loss->tensors.end(), "loss argument '" + name + "'");
    requireSame(name != "file" || at::equal(tensor, found->second), "loss");
    const auto rows = [&](const FusedModel& m, const at::Tensor& t) {
      if (isStackedArgument(m, name)) return t;
      std::vector<int64_t> sizes = t.sizes().vec();
      sizes.insert(sizes.begin(), static_cast<int64_t>(m.k()));
      return t.unsqueeze(0).expand(sizes);
    };
    const bool shared = !isStackedArgument(a, name) && !isStackedArgument(b, name) &&
                        at::equal(tensor, found->second);
    if (!shared) tensor = at::cat({rows(a, tensor), rows(b, found->second)});
  }
  return out;
}

}  // namespace

namespace {

using Tensors = std::map<std::string, at::Tensor>;

/// Where one of the two has no tensor of a name, its members start with zeros.
Tensors appendTensors(const Tensors& a, size_t a_members, const Tensors& b, size_t b_members) {
  const auto rows = [](const Tensors& from, const std::string& name, const at::Tensor& like,
                       size_t k) {
    const auto found = from.find(name);
    if (found != from.end()) return found->second;
    std::vector<int64_t> sizes = like.sizes().vec();
    sizes[0] = static_cast<int64_t>(k);
    return at::zeros(sizes, like.options());
  };
  Tensors out = a;
  out.insert(b.begin(), b.end());
  for (auto& [name, tensor] : out) {
    const at::Tensor like = tensor;
    tensor = at::cat({rows(a, name, like, a_members), rows(b, name, like, b_members)});
  }
  return out;
}

using Values = std::map<std::string, std::vector<double>>;

void appendValues(Values& to, const Values& from) {
  for (auto& [name, values] : to) {
    values.insert(values.end(), from.at(name).begin(), from.at(name).end());
  }
}

std::vector<RandomNodes> allRandomNodes(const FusedModel& model) {
  if (!model.random_nodes.empty()) return model.random_nodes;
  return std::vector<RandomNodes>(model.k());
}

std::vector<OwnNames> allNames(const FusedModel& model) {
  if (!model.own_names.empty()) return model.own_names;
  return std::vector<OwnNames>(model.k(), ownNames(model.prototype));
}

}  // namespace

FusedModel appendMembers(const FusedModel& first, const FusedModel& second) {
  if (!first.partial.empty() || !second.partial.empty()) {
    throw Refused(unsupported("a file made with --partial takes no further members")
                      .helpWith("fuse all members anew"));
  }
  FusedModel a = first, b = second;
  const DrawingOps a_draws = drawingOps(a), b_draws = drawingOps(b);
  alignVarying(a, b);
  renumberRandomNodes(a, a_draws);
  renumberRandomNodes(b, b_draws);
  requireAppendable(a, b);
  const at::NoGradGuard no_grad;
  FusedModel out = a;
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const at::Tensor tensor = a.tensors[i].detach();
    out.tensors[i] = a.stacked[i] ? at::cat({tensor, b.tensors[i].detach()}) : tensor.clone();
  }
  out.active = at::cat({a.active, b.active});
  out.step = at::cat({a.step, b.step});
  for (size_t i = 0; i < a.varying.size(); ++i) {
    out.varying[i].values = at::cat({a.varying[i].values, b.varying[i].values});
  }
  out.state = appendTensors(a.state, a.k(), b.state, b.k());
  out.extra = appendTensors(a.extra, a.k(), b.extra, b.k());
  const std::vector<OwnNames> more_names = allNames(b);
  if (!a.own_names.empty() || !b.own_names.empty() ||
      more_names[0].slots != ownNames(a.prototype).slots) {
    out.own_names = allNames(a);
    out.own_names.insert(out.own_names.end(), more_names.begin(), more_names.end());
  }
  out.member_names.insert(out.member_names.end(), b.member_names.begin(), b.member_names.end());
  out.member_seeds.insert(out.member_seeds.end(), b.member_seeds.begin(), b.member_seeds.end());
  if (!a.random_nodes.empty() || !b.random_nodes.empty()) {
    out.random_nodes = allRandomNodes(a);
    const std::vector<RandomNodes> more = allRandomNodes(b);
    out.random_nodes.insert(out.random_nodes.end(), more.begin(), more.end());
  }
  if (out.optimizer) {
    appendValues(out.optimizer->values, b.optimizer->values);
    for (size_t g = 0; g < out.optimizer->groups.size(); ++g) {
      appendValues(out.optimizer->groups[g].values, b.optimizer->groups[g].values);
    }
  }
  if (out.loss) out.loss = appendLoss(a, b);
  return out;
}

}  // namespace chorus
