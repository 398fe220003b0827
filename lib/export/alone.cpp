#include "lib/export/alone.h"

#include "chorus/pass.h"
#include "lib/export/state.h"
#include "lib/export/varying.h"
#include "lib/support/choice.h"
#include "lib/support/graph_order.h"
#include "lib/support/packed_name.h"

namespace chorus {
namespace {

[[noreturn]] void notOurs(const OwnTensor& tensor) {
  throw Refused(internalError("the graph reads '" + tensor.slot.name +
                              "' in another way than --partial wrote it"));
}

c10::TypePtr typeOf(const OwnTensor& tensor, at::ScalarType dtype) {
  std::vector<std::optional<int64_t>> sizes(tensor.sizes.begin(), tensor.sizes.end());
  return c10::TensorType::create(dtype, std::nullopt, c10::SymbolicShape(sizes), {}, std::nullopt);
}

/// reshape(slice(row), sizes)  ==>  the member's own tensor
void readPacked(const OwnTensor& tensor, Value* row, Value* own) {
  std::vector<Node*> readers;
  for (const auto& use : row->uses()) {
    if (use.user->kind() == c10::prim::Return) continue;  // another variant moves it
    if (use.user->kind() == c10::aten::reshape) {
      readers.push_back(use.user);
      continue;
    }
    if (use.user->kind() != c10::aten::slice) notOurs(tensor);
    for (const auto& deeper : use.user->output()->uses()) {
      if (deeper.user->kind() != c10::aten::reshape) notOurs(tensor);
      readers.push_back(deeper.user);
    }
  }
  for (Node* reader : readers) reader->output()->replaceAllUsesWith(own);
}

/// constant_pad_nd(reshape(x, [-1]), ...)  ==>  x
Value* unpadded(const OwnTensor& tensor, Value* value) {
  if (!tensor.packed) return value;
  if (value->node()->kind() == c10::aten::constant_pad_nd) value = value->node()->input(0);
  if (value->node()->kind() != c10::aten::reshape) notOurs(tensor);
  return value->node()->input(0);
}

/// `copies` of the nodes of `from`, where `of` has those of its copy.
void addCopies(const Graph& from, const Graph& copy, const NodeCopies& of, NodeCopies& copies) {
  const std::vector<Node*> nodes = nodesInOrder(from), copied = nodesInOrder(copy);
  // Numbers of the copy are constants that `from` does not have: ops are counted.
  const auto is_op = [](const Node* node) { return !node->kind().is_prim(); };
  std::vector<Node*> ops, copied_ops;
  std::ranges::copy_if(nodes, std::back_inserter(ops), is_op);
  std::ranges::copy_if(copied, std::back_inserter(copied_ops), is_op);
  for (size_t i = 0; i < ops.size(); ++i) {
    const auto found = of.find(copied_ops.at(i));
    if (found != of.end()) copies[ops[i]] = found->second;
  }
}

CanonicalGraph ownGraph(const FusedModel& model, size_t k, bool eval, NodeCopies* copies) {
  const PartialMember& mine = model.partial.at(k);
  const CanonicalGraph& all = eval ? model.prototype.eval : model.prototype.train;
  const std::shared_ptr<Graph> numbered = all.graph->copy();
  writeNumbers(*numbered, model.varying, eval, k);
  NodeCopies of_numbered;
  CanonicalGraph made;
  made.graph = takeVariant(*numbered, mine.variant, copies ? &of_numbered : nullptr);
  made.n_inputs = all.n_inputs;
  made.n_outputs = all.n_outputs;
  if (copies) addCopies(*all.graph, *numbered, of_numbered, *copies);
  Graph& graph = *made.graph;
  std::vector<std::pair<size_t, Value*>> updates;
  for (size_t i = 0; i < mine.tensors.size(); ++i) {
    const OwnTensor& tensor = mine.tensors[i];
    Value* from = graph.inputs()[all.n_inputs + tensor.in];
    Value* own = graph.addInput()->setType(typeOf(tensor, model.tensors[tensor.in].scalar_type()));
    for (size_t j = 0; j < all.updates.size(); ++j) {
      if (all.updates[j] != tensor.in) continue;
      updates.emplace_back(i, unpadded(tensor, graph.outputs()[all.n_outputs + j]));
    }
    tensor.packed ? readPacked(tensor, from, own) : from->replaceAllUsesWith(own);
  }
  // A value may have been the tensor itself before it was replaced.
  for (auto& [slot, value] : updates) {
    const OwnTensor& tensor = mine.tensors[slot];
    if (value == graph.inputs()[all.n_inputs + tensor.in])
      value = graph.inputs()[all.n_inputs + model.tensors.size() + slot];
  }
  while (graph.outputs().size() > all.n_outputs) graph.eraseOutput(graph.outputs().size() - 1);
  for (const auto& [slot, value] : updates) {
    made.updates.push_back(slot);
    graph.registerOutput(value);
  }
  runPasses(made.graph, {"dead-code"});
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    Value* input = graph.inputs()[all.n_inputs];
    if (!input->uses().empty()) {
      throw Refused(internalError("member " + std::to_string(k) + " reads a tensor of another"));
    }
    graph.eraseInput(all.n_inputs);
  }
  runPasses(made.graph, canonicalPipeline());
  return made;
}

/// Where a slot's elements are in the optimizer's flat state.
struct Span {
  std::string suffix;
  int64_t start = 0, width = 0;
};

std::map<size_t, Span> spansOf(const FusedModel& model) {
  std::map<size_t, Span> spans;
  const std::vector<size_t> slots = trainableSlots(model);
  for (const DtypeGroup& group : dtypeGroups(model)) {
    for (size_t i = 0; i < group.members.size(); ++i) {
      const size_t slot = slots[group.members[i]];
      const int64_t width = model.tensors[slot].numel() / static_cast<int64_t>(model.k());
      spans[slot] = {group.suffix, group.starts[i], width};
    }
  }
  return spans;
}

/// For each part of the state: `visit(rows of the model, rows of the member)`.
void forEachState(FusedModel& model, FusedModel& alone, size_t k,
                  const std::function<void(at::Tensor, at::Tensor)>& visit) {
  if (!model.optimizer || model.state.empty()) return;
  const auto row = static_cast<int64_t>(k);
  const auto whole = spansOf(model), mine = spansOf(alone);
  for (const StateSlot& slot : stateSlots(*model.optimizer)) {
    if (!slot.stored) continue;
    for (const auto& [own, span] : mine) {
      const Span& from = whole.at(model.partial[k].tensors[own].in);
      const at::Tensor theirs = model.state.at(slot.name + from.suffix)[row];
      const at::Tensor his = alone.state.at(slot.name + span.suffix)[0];
      slot.scalar
          ? visit(theirs, his)
          : visit(theirs.narrow(0, from.start, span.width), his.narrow(0, span.start, span.width));
    }
  }
}

/// "ema.3": of slot 3.
std::optional<std::pair<std::string, size_t>> slotOfName(const std::string& name) {
  for (const std::string prefix : {"ema.", "raw."}) {
    if (name.starts_with(prefix)) return std::pair{prefix, std::stoul(name.substr(prefix.size()))};
  }
  return std::nullopt;
}

void takeExtra(const FusedModel& model, size_t k, FusedModel& alone) {
  const auto row = static_cast<int64_t>(k);
  for (const auto& [name, tensor] : model.extra) {
    const auto of_slot = slotOfName(name);
    if (!of_slot) {
      alone.extra[name] = tensor.narrow(0, row, 1).clone();
      continue;
    }
    for (size_t i = 0; i < model.partial[k].tensors.size(); ++i) {
      const OwnTensor& own = model.partial[k].tensors[i];
      if (own.in != of_slot->second) continue;
      alone.extra[of_slot->first + std::to_string(i)] =
          ownTensor(model, k, own, tensor).unsqueeze(0).clone();
    }
  }
}

OptimizerSpec ownOptimizer(const FusedModel& model, size_t k) {
  OptimizerSpec spec = *model.optimizer;
  for (auto& [name, values] : spec.values) values = {values.at(k)};
  for (ParameterGroup& group : spec.groups) {
    for (auto& [name, values] : group.values) values = {values.at(k)};
    std::vector<std::string> names;
    for (const OwnTensor& own : model.partial[k].tensors) {
      if (std::ranges::count(group.parameters, model.prototype.slots[own.in].name) > 0)
        names.push_back(own.slot.name);
    }
    group.parameters = names;
  }
  return spec;
}

}  // namespace

Member ownStructure(const FusedModel& model, size_t k, NodeCopies* copies) {
  const PartialMember& mine = model.partial.at(k);
  Member member = model.prototype;
  member.name = model.member_names.at(k);
  member.seed = model.member_seeds.at(k);
  member.modules = mine.modules;
  member.traced = mine.traced;
  member.slots.clear();
  for (const OwnTensor& tensor : mine.tensors) member.slots.push_back(tensor.slot);
  member.train = ownGraph(model, k, false, copies);
  member.eval = ownGraph(model, k, true, copies);
  return member;
}

at::Tensor ownTensor(const FusedModel& model, size_t k, const OwnTensor& tensor,
                     const at::Tensor& values) {
  const at::Tensor row =
      model.stacked.at(tensor.in) ? values.select(0, static_cast<int64_t>(k)) : values;
  if (!tensor.packed) return row;
  return row.narrow(0, 0, c10::multiply_integers(tensor.sizes)).view(tensor.sizes);
}

FusedModel memberAlone(const FusedModel& model, size_t k) {
  const at::NoGradGuard no_grad;
  const auto row = static_cast<int64_t>(k);
  FusedModel alone;
  alone.member_names = {model.member_names.at(k)};
  alone.member_seeds = {model.member_seeds.at(k)};
  alone.prototype = ownStructure(model, k);
  for (const OwnTensor& own : model.partial[k].tensors) {
    const at::Tensor mine = ownTensor(model, k, own, model.tensors[own.in].detach()).clone();
    const bool stacked = own.slot.role != Role::Constant;
    alone.stacked.push_back(stacked);
    alone.tensors.push_back(stacked ? mine.unsqueeze(0) : mine);
    // What --share keeps once is not trained, and the optimizer has no state of it.
    TensorSlot& slot = alone.prototype.slots[alone.tensors.size() - 1];
    slot.requires_grad = slot.requires_grad && model.prototype.slots[own.in].requires_grad;
  }
  for (size_t i = 0; i < alone.tensors.size(); ++i) {
    TensorSlot& slot = alone.prototype.slots[i];
    if (slot.role == Role::Constant) slot.value = alone.tensors[i];
  }
  alone.active = model.active.narrow(0, row, 1).clone();
  alone.step = model.step.narrow(0, row, 1).clone();
  if (model.loss) alone.loss = viewMembers(model, k, 1).loss;
  if (model.optimizer) {
    alone.optimizer = ownOptimizer(model, k);
    FusedModel whole = model;
    whole.state = optimizerState(model);
    alone.state = optimizerState(alone);
    forEachState(whole, alone, k, [](at::Tensor from, at::Tensor to) { to.copy_(from); });
  }
  takeExtra(model, k, alone);
  return alone;
}

void putMember(FusedModel& model, const FusedModel& alone, size_t k) {
  const at::NoGradGuard no_grad;
  const auto row = static_cast<int64_t>(k);
  const std::vector<OwnTensor>& tensors = model.partial.at(k).tensors;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!alone.stacked[i]) continue;
    ownTensor(model, k, tensors[i], model.tensors[tensors[i].in].detach())
        .copy_(alone.tensors[i].detach()[0]);
  }
  FusedModel mine = alone;
  forEachState(model, mine, k, [](at::Tensor to, at::Tensor from) { to.copy_(from); });
  model.step[row].copy_(alone.step[0]);
}

std::string slotTitle(const FusedModel& model, size_t slot) {
  const std::string& name = model.prototype.slots.at(slot).name;
  if (!isPackedName(name)) return name;
  for (size_t k = 0; k < model.partial.size(); ++k) {
    for (const OwnTensor& own : model.partial[k].tensors) {
      if (own.in == slot) return own.slot.name + "' of '" + model.member_names[k];
    }
  }
  return name;
}

}  // namespace chorus
