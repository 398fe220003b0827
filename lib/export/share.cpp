#include "lib/export/share.h"

#include "lib/support/hash.h"

namespace chorus {
namespace {

bool matches(const char* pattern, const char* text) {
  if (*pattern == '*') return matches(pattern + 1, text) || (*text && matches(pattern, text + 1));
  if (*pattern == '\0' || *text == '\0') return *pattern == *text;
  return (*pattern == '?' || *pattern == *text) && matches(pattern + 1, text + 1);
}

bool isUpdated(const Member& member, size_t slot) {
  for (const CanonicalGraph* graph : {&member.train, &member.eval}) {
    if (std::ranges::count(graph->updates, slot) > 0) return true;
  }
  return false;
}

/// The first member whose tensor differs from member 0's; nullopt if all are equal.
std::optional<size_t> firstOther(const std::vector<Member>& members, size_t slot) {
  const at::Tensor& first = members[0].slots[slot].value;
  const uint64_t hash = hashTensor(first);
  for (size_t k = 1; k < members.size(); ++k) {
    const at::Tensor& value = members[k].slots.at(slot).value;
    if (!value.is_same(first) && hashTensor(value) != hash) return k;
  }
  return std::nullopt;
}

bool computes(const Node* node) {
  return !node->kind().is_prim() && std::ranges::any_of(node->outputs(), [](const Value* output) {
    return output->type()->castRaw<c10::TensorType>() != nullptr;
  });
}

/// Slots that an op reads beside nothing but inputs and other slots of `shared`.
std::vector<bool> usefulSlots(const CanonicalGraph& canonical, const std::vector<bool>& shared) {
  std::vector<bool> useful(shared.size());
  std::unordered_set<const Value*> common;
  const auto inputs = canonical.graph->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i < canonical.n_inputs || shared[i - canonical.n_inputs]) common.insert(inputs[i]);
  }
  for (const Node* node : canonical.graph->nodes()) {
    // The running statistics of a batch norm are stacked; what it gives out does not depend on
    // them.
    const bool norm = node->kind() == c10::aten::_native_batch_norm_legit_functional;
    const size_t read = norm ? 3 : node->inputs().size();
    const auto is_common = [&](const Value* input) { return common.contains(input); };
    if (!std::ranges::all_of(node->inputs().slice(0, read), is_common)) continue;
    for (size_t i = 0; i < (norm ? 3 : node->outputs().size()); ++i) common.insert(node->output(i));
    if (!computes(node)) continue;
    for (const Value* input : node->inputs().slice(0, read)) {
      const bool slot =
          input->node() == canonical.graph->param_node() && input->offset() >= canonical.n_inputs;
      if (slot) useful[input->offset() - canonical.n_inputs] = true;
    }
  }
  return useful;
}

/// Drops candidates until each that is left is of use.
void keepUseful(const Member& member, std::vector<bool>& shared, const std::vector<bool>& fixed) {
  for (bool changed = true; changed;) {
    changed = false;
    const std::vector<bool> train = usefulSlots(member.train, shared);
    const std::vector<bool> eval = usefulSlots(member.eval, shared);
    for (size_t i = 0; i < shared.size(); ++i) {
      if (!shared[i] || fixed[i] || train[i] || eval[i]) continue;
      shared[i] = false;
      changed = true;
    }
  }
}

void applyPatterns(const std::vector<Member>& members, const std::vector<std::string>& patterns,
                   std::vector<bool>& shared) {
  const std::vector<TensorSlot>& slots = members[0].slots;
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].role == Role::Constant || !matches(pattern.c_str(), slots[i].name.c_str()))
        continue;
      found = true;
      if (isUpdated(members[0], i)) continue;  // running statistics stay each member's own
      if (const auto other = firstOther(members, i)) {
        throw Refused(error("--share: '" + slots[i].name + "' of member " + std::to_string(*other) +
                                " differs from member 0's",
                            Place{members[*other].path, "", "", ""}));
      }
      shared[i] = true;
    }
    if (found) continue;
    std::vector<std::string> names;
    for (const TensorSlot& slot : slots) names.push_back(slot.name);
    const std::string near = nearest(pattern, names);
    throw Refused(error("--share: no tensor is called '" + pattern + "'" +
                        (near.empty() ? "" : "; did you mean '" + near + "'?")));
  }
}

}  // namespace

std::vector<bool> sharedSlots(const std::vector<Member>& members,
                              const std::vector<std::string>& patterns) {
  const Member& first = members.at(0);
  std::vector<bool> fixed(first.slots.size()), shared(first.slots.size());
  for (size_t i = 0; i < fixed.size(); ++i) {
    const TensorSlot& slot = first.slots[i];
    const bool constant = slot.role == Role::Constant;
    if (!constant && (members.size() < 2 || slot.requires_grad || isUpdated(first, i))) continue;
    shared[i] = !firstOther(members, i);
    fixed[i] = constant && shared[i];
  }
  keepUseful(first, shared, fixed);
  const auto frozen = [&](size_t i) { return shared[i] && first.slots[i].role == Role::Parameter; };
  bool any = false;
  for (size_t i = 0; i < shared.size(); ++i) any = any || frozen(i);
  if (!any) shared = fixed;
  if (!patterns.empty()) applyPatterns(members, patterns, shared);
  return shared;
}

void shareSlots(FusedModel& model, const std::vector<bool>& shared) {
  for (size_t i = 0; i < shared.size(); ++i) {
    TensorSlot& slot = model.prototype.slots[i];
    if (!shared[i] || !model.stacked[i]) continue;
    model.tensors[i] = model.tensors[i].detach().select(0, 0).clone();
    model.stacked[i] = false;
    slot.requires_grad = false;
  }
}

}  // namespace chorus
