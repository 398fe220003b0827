#include "chorus/fused_model.h"
#include "lib/export/alone.h"
#include "lib/export/fused_text.h"
#include "lib/export/module_tree.h"
#include "lib/export/varying.h"

namespace chorus {

namespace {

using torch::jit::Module;

/// The member's own classes, so that the module prints like the original.
void registerModules(Module& module, const Member& member) {
  for (const ModuleRecord& record : member.modules) {
    if (!record.path.empty()) submodule(module, pathComponents(record.path), record.type);
  }
}

void registerSlots(Module& module, const std::vector<TensorSlot>& slots,
                   const std::vector<at::Tensor>& tensors) {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].role == Role::Constant) continue;
    const bool is_parameter = slots[i].role == Role::Parameter;
    registerTensor(module, slots[i].name, tensors[i], is_parameter);
    for (const std::string& alias : slots[i].aliases) {
      registerTensor(module, alias, tensors[i], is_parameter);
    }
  }
}

std::string updatesText(const Member& member, const CanonicalGraph& graph,
                        const std::vector<std::string>& quoted, const std::string& indent) {
  std::string text;
  for (size_t j = 0; j < graph.updates.size(); ++j) {
    const TensorSlot& slot = member.slots[graph.updates[j]];
    std::vector<std::string> names = slot.aliases;
    names.insert(names.begin(), slot.name);
    for (const std::string& name : names) {
      text += indent + readExpression(name, quoted) + ".detach().copy_(o[" +
              std::to_string(graph.n_outputs + j) + "].detach())\n";
    }
  }
  return text;
}

/// def forward(self, x0: Tensor): the graph of the mode, the updates of buffers, the output.
std::string forwardText(const Member& member, const std::vector<std::string>& quoted,
                        const std::string& train, const std::string& eval) {
  std::string parameters = "self", arguments;
  for (size_t i = 0; i < member.inputs.size(); ++i) {
    const std::string x = "x" + std::to_string(i);
    parameters += ", " + x + ": Tensor";
    arguments += (i ? ", " : "") + x;
  }
  const std::string indent(8, ' ');
  return "def forward(" + parameters + "):\n    if self.training:\n" + indent + "o = self." +
         train + "(" + arguments + ")\n" + updatesText(member, member.train, quoted, indent) +
         "    else:\n" + indent + "o = self." + eval + "(" + arguments + ")\n" +
         updatesText(member, member.eval, quoted, indent) + "    return " +
         treeExpression(member.output, "o") + "\n";
}

Member withOwnNames(const FusedModel& model, size_t k) {
  Member member = model.prototype;
  if (model.own_names.empty()) return member;
  const OwnNames& names = model.own_names.at(k);
  member.modules = names.modules;
  for (size_t i = 0; i < member.slots.size(); ++i) {
    const std::vector<std::string>& mine = names.slots.at(i);
    member.slots[i].name = mine.at(0);
    member.slots[i].aliases.assign(mine.begin() + 1, mine.end());
  }
  return member;
}

}  // namespace

Module memberModule(const FusedModel& model, size_t k) {
  if (k >= model.k()) throw Refused(internalError("there is no member " + std::to_string(k)));
  if (!model.partial.empty()) return memberModule(memberAlone(model, k), 0);
  const Member member = withOwnNames(model, k);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < member.slots.size(); ++i) {
    const at::Tensor tensor = model.tensors[i].detach();
    const auto row = static_cast<int64_t>(k);
    tensors.push_back((model.stacked[i] ? tensor.select(0, row) : tensor).clone());
    tensors.back().set_requires_grad(member.slots[i].requires_grad &&
                                     member.slots[i].role == Role::Parameter);
  }
  const bool named = !member.modules.empty() && member.modules[0].path.empty();
  Module module = makeModule("__torch__." + (named ? member.modules[0].type : "Member"));
  registerModules(module, member);
  registerSlots(module, member.slots, tensors);

  const std::vector<std::string> taken = topLevelNames(member);
  const auto free = [&](std::string name) {
    while (module.hasattr(name)) name += "_";
    return name;
  };
  const std::string train = free("forward_train"), eval = free("forward_eval");
  const auto add = [&](const CanonicalGraph& canonical, const std::string& name) {
    const std::shared_ptr<Graph> body = canonical.graph->copy();
    writeNumbers(*body, model.varying, &canonical == &member.eval, k);
    const auto read = [&](Graph& graph, Value* self, size_t slot) -> Value* {
      if (member.slots[slot].role == Role::Constant) return graph.insertConstant(tensors[slot]);
      Value* tensor = insertRead(graph, self, member.slots[slot].name);
      return isReadAndUpdated(canonical, slot) ? graph.insert(c10::aten::clone, {tensor}) : tensor;
    };
    addGraphMethod(module, name, readingGraph(canonical, *body, module, read));
  };
  add(member.train, train);
  add(member.eval, eval);
  module.define(forwardText(member, taken, train, eval));
  return module;
}

}  // namespace chorus
