#include "chorus/optimizer.h"
#include "lib/export/fused_text.h"
#include "lib/export/state.h"
#include "lib/support/fault.h"

namespace chorus {

namespace {

const char* const kFlat = R"py(
def chorus_flat(self, tensors: List[Tensor]) -> Tensor:
    rows: List[Tensor] = []
    for t in tensors:
        rows.append(t.detach().unsqueeze(-1).flatten(1))
    return torch.cat(rows, 1)

def chorus_write(self, tensors: List[Tensor], flat: Tensor) -> None:
    start = 0
    for t in tensors:
        width = t.numel() // flat.size(0)
        t.detach().copy_(flat.narrow(1, start, width).view(t.size()))
        start += width

def chorus_wide(self, t: Tensor) -> Tensor:
    if t.dtype == 5 or t.dtype == 15:
        return t.to(6)
    return t
)py";

/// Asserts that no cast of the module changed what must stay fp64 and int64.
std::string checkText(const OptimizerDefinition& optimizer, const OptimizerSpec& spec) {
  std::string good = "self.chorus.step.dtype == 4";
  for (size_t g = 0; g <= spec.groups.size(); ++g) {
    for (const Hyperparameter& h : optimizer.hyperparameters) {
      good += " and self.chorus." + h.name + hyperSuffix(g) + ".dtype == 7";
    }
  }
  for (const std::string& slot : optimizer.scalar_slots) {
    good += " and self.chorus." + slot + ".dtype == 7";
  }
  return "\ndef chorus_check(self) -> None:\n    assert " + good +
         ", \"a cast of the module rounded its hyperparameters: m.chorus must stay float64 (and "
         "m.chorus.step int64); cast its parameters only, or fuse members of the wanted "
         "dtype\"\n";
}

struct Rule {
  const FusedTextRequest& request;
  const OptimizerDefinition& definition;
  std::vector<StateSlot> slots;
};

std::string ruleText(const Rule& rule) {
  std::string text = "def chorus_rule(self, p: Tensor, g: Tensor, step: Tensor";
  std::string result = "Tensor";
  for (const StateSlot& slot : rule.slots) {
    text += ", " + slot.name + ": Tensor";
    result += ", Tensor";
  }
  for (const Hyperparameter& h : rule.definition.hyperparameters)
    text += ", " + h.name + ": Tensor";
  for (const std::string& flag : rule.definition.flags) text += ", " + flag + ": bool";
  if (!rule.slots.empty()) result = "Tuple[" + result + "]";
  return text + ") -> " + result + ":\n" + rule.definition.body;
}

/// One call for the flat group, or in `per_parameter` rules for parameter `q` behind `start`.
std::string ruleCall(const Rule& rule, size_t index) {
  const std::string& suffix = rule.request.group_suffixes[index];
  const bool alone = rule.definition.per_parameter;
  const std::string shape = alone ? ".view(ones)" : ".unsqueeze(1)";
  std::string results = "new_p", call = alone ? "p, g, step.view(ones)" : "p, g, step";
  for (const StateSlot& slot : rule.slots) {
    results += ", new_" + slot.name;
    // Where the flag is off nobody reads the slot: p only fills the place.
    std::string stored = "self.chorus." + slot.name + suffix;
    if (alone && !slot.scalar) stored += ".narrow(1, start, width).view(p.size())";
    call += ", " + (slot.stored ? slot.scalar ? stored : "self.chorus_wide(" + stored + ")" : "p");
  }
  for (const Hyperparameter& h : rule.definition.hyperparameters) {
    const bool broken = h.name == "lr" && fault("lr_of_member_zero");
    call += ", self.chorus." + h.name + rule.request.hyper_suffixes[index] +
            (broken ? "[:1]" : "") + shape;
  }
  for (const std::string& flag : rule.definition.flags) {
    const auto on = rule.request.optimizer->flags.find(flag);
    call += on != rule.request.optimizer->flags.end() && on->second ? ", True" : ", False";
  }
  return results + " = self.chorus_rule(" + call + ")\n";
}

/// The rule on each parameter [K,...] by itself; the results are flat again.
std::string eachParameter(const Rule& rule, size_t index, const std::string& parameters,
                          const std::string& gradients) {
  std::string text = "    these = " + parameters + "\n    slopes = " + gradients +
                     "\n    start = 0\n    all_p: List[Tensor] = []\n";
  for (const StateSlot& slot : rule.slots) text += "    all_" + slot.name + ": List[Tensor] = []\n";
  text +=
      "    for j in range(len(these)):\n"
      "        p = self.chorus_wide(these[j].detach())\n"
      "        g = slopes[j].to(p.dtype)\n"
      "        width = p.numel() // p.size(0)\n"
      "        ones = [-1] + [1] * (p.dim() - 1)\n        " +
      ruleCall(rule, index) + "        all_p.append(new_p)\n";
  for (const StateSlot& slot : rule.slots)
    text += "        all_" + slot.name + ".append(new_" + slot.name + ")\n";
  text += "        start += width\n    new_p = self.chorus_flat(all_p)\n";
  for (const StateSlot& slot : rule.slots)
    text += "    new_" + slot.name + " = self.chorus_flat(all_" + slot.name + ")\n";
  return text;
}

std::string memberList(const FusedTextRequest& request, const std::vector<size_t>& group,
                       const std::string& list) {
  if (request.groups.size() == 1) return list;
  std::string text;
  for (const size_t i : group)
    text += (text.empty() ? "" : ", ") + list + "[" + std::to_string(i) + "]";
  return "[" + text + "]";
}

/// New values of one dtype group, then `selection` where not everyone moves. Names end in the
/// suffix.
std::string groupText(const Rule& rule, size_t index) {
  const auto& group = rule.request.groups[index];
  const std::string suffix = rule.request.group_suffixes[index];
  const std::string id = std::to_string(index);
  const std::string parameters = memberList(rule.request, group, "parameters");
  const std::string gradients = memberList(rule.request, group, "complete");
  std::string text = "    old = self.chorus_flat(" + parameters + ")\n";
  if (rule.definition.per_parameter) {
    text += eachParameter(rule, index, parameters, gradients);
  } else {
    text += "    p = self.chorus_wide(old)\n    g = self.chorus_flat(" + gradients +
            ").to(p.dtype)\n    " + ruleCall(rule, index);
  }
  text +=
      "    new_p = new_p.to(old.dtype)\n    if not everyone:\n"
      "        mask = self.chorus_flat(" +
      memberList(rule.request, group, "masks") +
      ")\n        new_p = torch.where(mask, new_p, old)\n";
  for (const StateSlot& slot : rule.slots) {
    if (!slot.stored || fault("moments_ignore_active")) continue;
    const std::string stored = "self.chorus." + slot.name + suffix, fresh = "new_" + slot.name;
    text += "        " + fresh + " = torch.where(" +
            (slot.scalar ? "active.unsqueeze(1)" : "mask") + ", " + fresh + ".to(" + stored +
            ".dtype), " + stored + ")\n";
  }
  text += "    result" + id + " = new_p\n";
  for (const StateSlot& slot : rule.slots) {
    if (slot.stored) text += "    " + slot.name + id + " = new_" + slot.name + "\n";
  }
  return text;
}

std::string storeText(const Rule& rule, size_t index) {
  const std::string id = std::to_string(index);
  std::string text = "    self.chorus_write(" +
                     memberList(rule.request, rule.request.groups[index], "parameters") +
                     ", result" + id + ")\n";
  for (const StateSlot& slot : rule.slots) {
    if (!slot.stored) continue;
    text += "    self.chorus." + slot.name + rule.request.group_suffixes[index] + ".copy_(" +
            slot.name + id + ")\n";
  }
  return text;
}

/// A tensor of two names is one storage in the file, but `m.to(device)` makes two of it.
std::string tiesText(const FusedTextRequest& request) {
  std::string text;
  for (size_t i = 0; i < request.trainable.size(); ++i) {
    for (const std::string& alias : request.trainable_aliases[i]) {
      text += "    " + alias + ".detach().copy_(" + request.trainable[i] + ".detach())\n";
    }
  }
  return text;
}

}  // namespace

std::string updateText(const FusedTextRequest& request) {
  const OptimizerDefinition& definition = findOptimizer(request.optimizer->name);
  const Rule rule{request, definition, stateSlots(*request.optimizer)};
  std::string text =
      kFlat + ("\n" + ruleText(rule)) + checkText(definition, *request.optimizer) + R"py(
def chorus_update(self, gradients: List[Tensor]) -> None:
    self.chorus_check()
    parameters = self.chorus_trainable()
    assert len(gradients) == len(parameters), "chorus_update takes {} gradients, got {}".format(
        len(parameters), len(gradients))
    active = self.chorus.active
    everyone = self.chorus_everyone()
    complete: List[Tensor] = []
    for i in range(len(parameters)):
        if gradients[i].numel() == 0:
            everyone = False
        complete.append(gradients[i])
    masks: List[Tensor] = []
    if not everyone:
        for i in range(len(parameters)):
            p = parameters[i].detach()
            mask = active.view([-1] + [1] * (p.dim() - 1)).expand(p.size())
            if gradients[i].numel() == 0:
                complete[i] = torch.zeros_like(p)
                mask = torch.zeros_like(mask)
            masks.append(mask)
    step = (self.chorus.step + 1).to(7).unsqueeze(1)
)py";
  for (size_t i = 0; i < request.groups.size(); ++i) text += groupText(rule, i);
  for (size_t i = 0; i < request.groups.size(); ++i) text += storeText(rule, i);
  return text + tiesText(request) +
         "    self.chorus.step.copy_(torch.where(active, self.chorus.step + 1, "
         "self.chorus.step))\n";
}

}  // namespace chorus
