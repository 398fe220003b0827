#include "lib/export/fused_text.h"

#include <regex>

#include "lib/export/fill.h"
#include "lib/export/module_tree.h"
#include "lib/support/fault.h"

namespace chorus {

namespace {

std::string join(const std::vector<std::string>& items, const std::string& separator = ", ") {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) text += (i ? separator : "") + items[i];
  return text;
}

std::vector<std::string> inputNames(const FusedTextRequest& request) {
  std::vector<std::string> names;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    names.push_back(fill("x$i", {{"i", std::to_string(i)}}));
  }
  return names;
}

/// y, and y1, y2, ... where the loss takes more.
std::vector<std::string> targetNames(const FusedTextRequest& request) {
  std::vector<std::string> names = {"y"};
  for (size_t i = 1; i <= request.more_targets; ++i) {
    names.push_back(fill("y$i", {{"i", std::to_string(i)}}));
  }
  return names;
}

/// "self, x0: Tensor, x1: Tensor"
std::string parameters(const FusedTextRequest& request, bool target) {
  std::string text = "self";
  for (const std::string& name : inputNames(request)) text += ", " + name + ": Tensor";
  if (!target) return text;
  for (const std::string& name : targetNames(request)) text += ", " + name + ": Tensor";
  return text;
}

std::string arguments(const FusedTextRequest& request, bool target) {
  std::vector<std::string> names = inputNames(request);
  if (!target) return join(names);
  for (const std::string& name : targetNames(request)) names.push_back(name);
  return join(names);
}

const char* const kBasics = R"py(
def chorus_everyone(self) -> bool:
    active = self.chorus.active
    everyone = False
    if active.is_cpu:
        everyone = bool(active.all())
    return everyone

def chorus_select(self, new: Tensor, old: Tensor) -> Tensor:
    active = self.chorus.active.view([-1] + [1] * (old.dim() - 1))
    return torch.where(active, new.to(old.dtype), old)

def chorus_expand(self, x: Tensor, rank: int) -> Tensor:
    k = self.chorus.active.size(0)
    if x.dim() == rank:
        return x.unsqueeze(0).expand([k] + x.size())
    return x
)py";

/// Assertions on rank and K of one input.
std::string rankText(size_t index, size_t rank) {
  return fill(
      R"py(    assert x$i.dim() == $rank or x$i.dim() == $above, "input $i has rank {}; it must be $rank (one batch for all members) or $above (stacked, [K,...])".format(x$i.dim())
    if x$i.dim() == $above:
        assert x$i.size(0) == k, "input $i is stacked for {} members, but there are {}".format(x$i.size(0), k)
        stacked = True
)py",
      {{"i", std::to_string(index)},
       {"rank", std::to_string(rank)},
       {"above", std::to_string(rank + 1)}});
}

/// Of an input that all members share.
std::string sharedText(size_t index, size_t rank) {
  return fill(
      R"py(    assert x$i.dim() == $rank, "input $i has rank {}; it decides the lengths of packed sequences, which all members share, and must be $rank".format(x$i.dim())
)py",
      {{"i", std::to_string(index)}, {"rank", std::to_string(rank)}});
}

/// The graph for the mode and for shared or stacked inputs.
std::string runText(const FusedTextRequest& request) {
  std::string ranks, expand;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const size_t rank = request.inputs[i].rank();
    if (request.lengths.contains(i)) {
      ranks += sharedText(i, rank);
      continue;
    }
    ranks += rankText(i, rank);
    expand += fill("        x$i = self.chorus_expand(x$i, $rank)\n",
                   {{"i", std::to_string(i)}, {"rank", std::to_string(rank)}});
  }
  const std::string both = R"py(        if self.training:
            values = self.chorus_forward_train_$how($inputs)
        else:
            values = self.chorus_forward_eval_$how($inputs)
)py";
  std::string text = R"py(
def chorus_run($parameters) -> Tuple[List[Tensor], List[Tensor]]:
    k = self.chorus.active.size(0)
    stacked = $always
$ranks    values: List[Tensor] = []
    if stacked:
$expand)py" + fill(both, {{"how", "stacked"}});
  if (request.has_shared_graphs) text += "    else:\n" + fill(both, {{"how", "shared"}});
  return fill(text + "    return values[:$n], values[$n:]\n",
              {{"always", request.has_shared_graphs ? "False" : "True"},
               {"parameters", parameters(request, false)},
               {"ranks", ranks},
               {"expand", expand},
               {"inputs", arguments(request, false)},
               {"n", std::to_string(request.n_outputs)}});
}

std::string updatesText(const std::vector<std::vector<std::string>>& updates,
                        const std::string& indent) {
  if (updates.empty() || fault("stats_unmoved")) return indent + "pass\n";
  std::string text;
  for (size_t i = 0; i < updates.size(); ++i) {
    const std::string& buffer = updates[i].front();
    text += indent + "value = updates[" + std::to_string(i) + "].detach()\n" + indent +
            "if not everyone:\n" + indent + "    value = self.chorus_select(value, " + buffer +
            ".detach())\n";
    for (const std::string& name : updates[i]) {
      text += indent + name + ".detach().copy_(value)\n";
    }
  }
  return text;
}

/// Buffers take their new values; those of inactive members keep theirs.
std::string applyText(const FusedTextRequest& request) {
  const std::string head = "def chorus_apply(self, updates: List[Tensor]) -> None:\n";
  if (request.train_updates.empty() && request.eval_updates.empty()) return head + "    pass\n";
  const std::string indent(8, ' ');
  return head + "    everyone = self.chorus_everyone()\n    if self.training:\n" +
         updatesText(request.train_updates, indent) + "    else:\n" +
         updatesText(request.eval_updates, indent);
}

std::string forwardText(const FusedTextRequest& request) {
  return "def forward(" + parameters(request, false) + "):\n    o, updates = self.chorus_run(" +
         arguments(request, false) + ")\n    self.chorus_apply(updates)\n    return " +
         treeExpression(request.output, "o") + "\n";
}

/// "o, y": what the loss is called with, for outputs `o`.
std::string lossArguments(const FusedTextRequest& request) {
  if (!request.takes_target) return "o, o[0]";
  std::vector<std::string> more = targetNames(request);
  more.erase(more.begin());
  return more.empty() ? "o, y" : "o, y, [" + join(more) + "]";
}

std::string lossText(const FusedTextRequest& request) {
  return std::string("def chorus_losses(self, outputs: List[Tensor], target: Tensor") +
         (request.more_targets ? ", more: List[Tensor]" : "") + ") -> Tensor:\n" +
         request.loss_body + "\ndef loss(" + parameters(request, request.takes_target) +
         ") -> Tensor:\n    o, updates = self.chorus_run(" + arguments(request, false) +
         ")\n    losses = self.chorus_losses(" + lossArguments(request) +
         ")\n    self.chorus_apply(updates)\n    return losses\n";
}

/// The losses of rows with weights [K,N]: the loss sees each row as a member of its own, [K,N,...]
/// -> [(K N),1,...], and arguments of K values once per row.
std::string weightedText(const FusedTextRequest& request) {
  std::string body =
      std::regex_replace(request.loss_body, std::regex("\\bchorus_losses"), "chorus_row_losses");
  for (const std::string& name : request.loss_constants) {
    const std::string read = "self.chorus." + name;
    body = std::regex_replace(
        body, std::regex("\\bself\\.chorus\\." + name + "\\b"),
        read + ".repeat_interleave(outputs[0].size(0) // " + read + ".size(0), 0)");
  }
  std::string text =
      "def chorus_row_losses(self, outputs: List[Tensor], target: Tensor) -> Tensor:\n" + body +
      "\ndef chorus_weighted(self, outputs: List[Tensor], target: Tensor, weight: Tensor) -> "
      "Tensor:\n"
      "    k = outputs[0].size(0)\n"
      "    n = outputs[0].size(1)\n"
      "    rows: List[Tensor] = []\n"
      "    for o in outputs:\n"
      "        absent = o.dim() == 2 and o.size(1) == 0\n"
      "        rows.append(o if absent else o.reshape([k * n, 1] + o.size()[2:]))\n"
      "    t = rows[0]\n";
  if (request.takes_target) text += "    t = target.reshape([k * n, 1] + target.size()[2:])\n";
  text +=
      "    losses = self.chorus_row_losses(rows, t).view([k, n])\n"
      "    w = weight.to(losses.dtype)\n";
  if (fault("weights_of_member_zero")) text += "    w = w[:1].expand_as(w)\n";
  text += "    total = (losses * w).sum(1)\n";
  if (request.sums_rows) return text + "    return total\n";
  return text +
         "    count = w.sum(1)\n"
         "    return total / torch.where(count == 0, torch.ones_like(count), count)\n";
}

/// Lines that give `losses` [K]; `step`: of weighted rows where there are weights.
std::string computeText(const FusedTextRequest& request, bool step) {
  const std::string plain = "losses = self.chorus_losses(" + lossArguments(request) + ")\n";
  if (!step || !request.by_rows) {
    return std::string(step ? "        assert weight is None\n" : "") + "        " + plain;
  }
  return "        if weight is None:\n            " + plain +
         "        else:\n            losses = self.chorus_weighted(" + lossArguments(request) +
         ", weight)\n";
}

/// A parameter that the loss does not reach, or that the user froze, gets an empty tensor. `step`:
/// chorus_step of the runtime, which also returns the outputs and weighs the losses.
std::string gradientsText(const FusedTextRequest& request, bool step) {
  const bool target = request.takes_target;
  std::string text = step ? "def chorus_step(" + parameters(request, target) +
                                ", scale: Optional[Tensor], weight: Optional[Tensor]) -> "
                                "Tuple[Tensor, List[Tensor], "
                                "List[Tensor], List[Tensor]]:\n"
                          : "def chorus_gradients(" + parameters(request, target) +
                                ") -> Tuple[Tensor, List[Tensor]]:\n";
  text +=
      "    assert not (self.chorus.active | self.chorus.active).is_inference(), "
      "\"training is not possible under torch.inference_mode(); torch.no_grad() is fine\"\n"
      "    parameters = self.chorus_trainable()\n"
      "    wanted: List[Tensor] = []\n"
      "    for p in parameters:\n"
      "        if p.requires_grad:\n"
      "            assert not p.is_inference(), \"the parameters were made under "
      "torch.inference_mode(); load the file outside of it\"\n"
      "            wanted.append(p)\n"
      "    assert len(wanted) > 0, \"there is nothing to train: no parameter requires a "
      "gradient\"\n"
      "    with GradMode(True):\n"
      "        o, updates = self.chorus_run(" +
      arguments(request, false) + ")\n" + computeText(request, step) + "        total = losses" +
      (step ? "\n        if scale is not None:\n            total = losses * scale" : "") +
      "\n        found = torch.grad([total." + (fault("mean_over_k") ? "mean" : "sum") +
      "()], wanted, None, None, False, True)\n" +
      (step ? "    outputs: List[Tensor] = []\n    for t in o:\n"
              "        outputs.append(t.detach())\n"
              "    later: List[Tensor] = []\n    for t in updates:\n"
              "        later.append(t.detach())\n"
            : "    self.chorus_apply(updates)\n") +
      "    gradients: List[Tensor] = []\n"
      "    i = 0\n"
      "    for p in parameters:\n"
      "        gradient: Optional[Tensor] = None\n"
      "        if p.requires_grad:\n"
      "            gradient = found[i]\n"
      "            i += 1\n"
      "        if gradient is None:\n"
      "            gradients.append(p.detach().new_empty([0]))\n"
      "        else:\n"
      "            gradients.append(gradient" +
      (fault("swap_members") ? ".flip([0])" : "") + ")\n    return losses.detach(), " +
      (step ? "outputs, gradients, later\n" : "gradients\n");
  return text;
}

}  // namespace

const std::vector<std::string>& fusedNames() {
  static const std::vector<std::string> names = {"chorus",
                                                 "loss",
                                                 "train_step",
                                                 "member_names",
                                                 "shared_names",
                                                 "chorus_run",
                                                 "chorus_apply",
                                                 "chorus_everyone",
                                                 "chorus_select",
                                                 "chorus_expand",
                                                 "chorus_losses",
                                                 "chorus_row_losses",
                                                 "chorus_weighted",
                                                 "chorus_scripted_train",
                                                 "chorus_scripted_eval",
                                                 "chorus_trainable",
                                                 "chorus_flat",
                                                 "chorus_wide",
                                                 "chorus_write",
                                                 "chorus_rule",
                                                 "chorus_check",
                                                 "chorus_gradients",
                                                 "chorus_step",
                                                 "chorus_update",
                                                 "chorus_forward_train_shared",
                                                 "chorus_forward_train_stacked",
                                                 "chorus_forward_eval_shared",
                                                 "chorus_forward_eval_stacked"};
  return names;
}

std::string fusedText(const FusedTextRequest& request) {
  std::string text = kBasics;
  text += "\n" + runText(request) + "\n" + applyText(request) + "\n" + forwardText(request);
  if (request.has_loss) text += "\n" + lossText(request);
  const bool trains = !request.trainable.empty();
  if (trains && (request.has_loss || request.optimizer)) {
    text += "\ndef chorus_trainable(self) -> List[Tensor]:\n    return [" +
            join(request.trainable, ",\n        ") + "]\n\n";
    if (request.has_loss) text += gradientsText(request, /*step=*/false);
    if (request.has_loss && request.for_runtime) {
      if (request.by_rows) text += "\n" + weightedText(request);
      text += "\n" + gradientsText(request, /*step=*/true);
    }
  }
  if (!trains || !request.optimizer) return text;
  text += "\n" + updateText(request);
  if (!request.has_loss) return text;
  return text + "\ndef train_step(" + parameters(request, request.takes_target) +
         ") -> Tensor:\n    self.chorus_check()\n    losses, gradients = self.chorus_gradients(" +
         arguments(request, request.takes_target) +
         ")\n    self.chorus_update(gradients)\n    return losses\n";
}

std::vector<std::string> topLevelNames(const Member& member) {
  std::set<std::string> names;
  for (const TensorSlot& slot : member.slots) {
    if (slot.role == Role::Constant) continue;
    names.insert(pathComponents(slot.name).front());
    for (const std::string& alias : slot.aliases) names.insert(pathComponents(alias).front());
  }
  return {names.begin(), names.end()};
}

std::map<std::string, std::string> renamedNames(const std::vector<std::string>& taken) {
  std::set<std::string> used(taken.begin(), taken.end());
  used.insert(fusedNames().begin(), fusedNames().end());
  std::map<std::string, std::string> renamed;
  for (const std::string& name : fusedNames()) {
    if (!std::count(taken.begin(), taken.end(), name)) continue;
    std::string free = "chorus_" + name;
    while (used.count(free)) free = "chorus_" + free;
    used.insert(free);
    renamed[name] = free;
  }
  return renamed;
}

std::string renameTaken(const std::string& text,
                        const std::map<std::string, std::string>& renamed) {
  std::string out = text;
  for (const auto& [name, free] : renamed) {
    out = std::regex_replace(out, std::regex("\\bself\\." + name + "\\b"), "self." + free);
    out = std::regex_replace(out, std::regex("\\bdef " + name + "\\("), "def " + free + "(");
  }
  return out;
}

}  // namespace chorus
