#include "chorus/pass.h"
#include "lib/export/eager_gradients.h"
#include "lib/export/fused_json.h"
#include "lib/export/fused_text.h"
#include "lib/export/grad_mode.h"
#include "lib/export/gradient_reach.h"
#include "lib/export/module_tree.h"
#include "lib/export/state.h"
#include "lib/export/varying.h"
#include "lib/support/choice.h"
#include "lib/support/fault.h"
#include "lib/support/marker_ops.h"
#include "lib/support/packed_lengths.h"

namespace chorus {

namespace {

using torch::jit::Module;

struct Builder {
  const FusedModel& model;
  const BuildOptions& options;
  Module module;
  std::map<std::string, std::string> renamed;
  std::vector<std::string> taken;

  std::string ours(const std::string& name) const {
    const auto found = renamed.find(name);
    return found == renamed.end() ? name : found->second;
  }
  std::string slotPath(size_t slot) const { return chorus::slotPath(model, slot); }
  std::string expression(const std::string& path) const { return readExpression(path, taken); }
};

/// What differs between members beyond their weights, [K,...].
at::Tensor perMember(const at::Tensor& values) {
  return fault("varying_of_member_zero") ? values.slice(0, 0, 1).expand_as(values).clone() : values;
}

void registerSlots(Builder& b) {
  const auto& slots = b.model.prototype.slots;
  for (size_t i = 0; i < slots.size(); ++i) {
    const bool is_parameter = slots[i].role == Role::Parameter;
    const bool own = b.model.stacked[i] && slots[i].role == Role::Constant;
    const at::Tensor tensor = own ? perMember(b.model.tensors[i]) : b.model.tensors[i];
    tensor.set_requires_grad(is_parameter && slots[i].requires_grad);
    registerTensor(b.module, b.slotPath(i), tensor, is_parameter);
    for (const std::string& alias : slots[i].aliases) {
      if (slots[i].role == Role::Constant) continue;
      registerTensor(b.module, alias, tensor, is_parameter);
    }
  }
}

c10::IValue stringList(const std::vector<std::string>& strings) {
  c10::List<std::string> list;
  for (const std::string& s : strings) list.push_back(s);
  return list;
}

void registerState(Builder& b, const LossCode& loss) {
  const std::string prefix = b.ours("chorus");
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    registerTensor(b.module, prefix + "." + name, tensor, /*is_parameter=*/false);
  };
  add("active", b.model.active);
  add("step", b.model.step);
  for (size_t i = 0; i < b.model.varying.size(); ++i) {
    add(varyingName(i), perMember(b.model.varying[i].values));
  }
  for (const auto& [name, tensor] : loss.constants) add(name, tensor);
  for (const auto& [name, tensor] : loss.shared_constants) add(name, tensor);
  if (b.model.optimizer) {
    for (size_t g = 0; g <= b.model.optimizer->groups.size(); ++g) {
      for (const auto& [name, values] : hyperValues(*b.model.optimizer, g)) {
        add(name + hyperSuffix(g), at::tensor(values, at::kDouble));
      }
    }
    for (const auto& [name, tensor] : optimizerState(b.model)) add(name, tensor);
  }
  for (const auto& [name, tensor] : b.model.extra) add("extra." + name, tensor);
  std::vector<std::string> shared;
  for (size_t i = 0; i < b.model.stacked.size(); ++i) {
    if (!b.model.stacked[i]) shared.push_back(b.slotPath(i));
  }
  for (const auto& [name, tensor] : loss.shared_constants) shared.push_back(prefix + "." + name);
  const auto type = c10::ListType::ofStrings();
  b.module.register_attribute(b.ours("member_names"), type, stringList(b.model.member_names));
  b.module.register_attribute(b.ours("shared_names"), type, stringList(shared));
}

/// A portable file knows aten and prim only; other ops are ours and need the runtime.
void requirePortable(at::ArrayRef<const torch::jit::Block*> blocks) {
  for (const torch::jit::Block* block : blocks) {
    for (const Node* node : block->nodes()) {
      if (!node->kind().is_aten() && !node->kind().is_prim()) {
        const std::string op = node->kind().toQualString();
        throw Refused(internalError("the fused graph still has " + op));
      }
      requirePortable(node->blocks());
    }
  }
}

/// A parameter whose gradient is zero stays where it is.
bool restsWithoutGradient(const OptimizerSpec& optimizer) {
  if (optimizer.name != "sgd") return false;
  const auto moves = [](const std::map<std::string, std::vector<double>>& values) {
    for (const char* name : {"momentum", "weight_decay"}) {
      const auto found = values.find(name);
      if (found == values.end()) continue;
      for (const double value : found->second) {
        if (value != 0) return true;
      }
    }
    return false;
  };
  return !moves(optimizer.values) &&
         std::ranges::none_of(optimizer.groups, [&](const auto& g) { return moves(g.values); });
}

/// Where a member's own data decide that a branch is not taken, PyTorch has no gradient for what
/// only that branch reads; stacked with the others it is zero, which is not the same to momentum,
/// moments and decay.
void refuseZeroForNone(const Builder& b, const CanonicalGraph& canonical,
                       const std::vector<Decision>& decisions) {
  if (b.model.k() == 1 || !b.model.optimizer || restsWithoutGradient(*b.model.optimizer)) return;
  const auto own = std::ranges::find_if(decisions, [](const Decision& decision) {
    return decision.kind == Decision::Kind::PerMember &&
           (decision.op == "prim::If" || decision.op == "prim::Loop");
  });
  if (own == decisions.end()) return;
  const auto surely = reachedByGradients(canonical, Branches::Surely);
  const auto maybe = reachedByGradients(canonical, Branches::Maybe);
  for (const size_t slot : trainableSlots(b.model)) {
    const Value* parameter = canonical.slotInput(slot);
    if (surely.contains(parameter) || !maybe.contains(parameter)) continue;
    Message message = unsupported("'" + b.model.prototype.slots[slot].name +
                                      "' is read only where a member's own data decide it, and " +
                                      b.model.optimizer->name + " moves what has no gradient",
                                  own->place);
    message.note(
        "PyTorch leaves it alone in a step that does not read it; stacked with the other members' "
        "its gradient is zero, and momentum, moments or weight decay would move it");
    message.help =
        "sgd without momentum and weight decay trains it exactly; or train the members apart";
    throw Refused(message);
  }
}

void addForward(Builder& b, const CanonicalGraph& canonical, const std::string& mode, bool stacked,
                bool keep_decisions) {
  std::shared_ptr<Graph> member = canonical.graph->copy();
  liftNumbers(*member, b.model, mode == "eval", b.options.counter_based_random);
  if (b.options.counter_based_random) runPasses(member, {"counter-random"});
  std::vector<bool> flags(canonical.n_inputs, stacked);
  for (const auto& entry : inputsThatAreLengths(*member)) {
    if (entry.first < flags.size()) flags[entry.first] = false;
  }
  flags.insert(flags.end(), b.model.stacked.begin(), b.model.stacked.end());
  flags.insert(flags.end(), b.model.varying.size(), true);
  std::vector<size_t> variants;
  for (const PartialMember& one : b.model.partial) variants.push_back(one.variant);
  BatchedGraph batched =
      batchGraph(*member, flags, /*stack_outputs=*/true, b.options.disabled, variants);
  if (mode == "train") refuseZeroForNone(b, canonical, batched.decisions);
  if (keep_decisions && b.options.decisions) *b.options.decisions = batched.decisions;
  runPasses(batched.graph, fusedPipeline(), b.options.disabled);
  if (!b.options.counter_based_random) {
    requirePortable({batched.graph->block()});
    keepEagerGradients(*batched.graph, *member);
  }

  const size_t slots = b.model.tensors.size();
  const auto read = [&](Graph& graph, Value* self, size_t slot) {
    if (slot >= slots) {
      return insertRead(graph, self, b.ours("chorus") + "." + varyingName(slot - slots));
    }
    Value* tensor = insertRead(graph, self, b.slotPath(slot));
    return isReadAndUpdated(canonical, slot) ? graph.insert(c10::aten::clone, {tensor}) : tensor;
  };
  const auto graph = readingGraph(canonical, *batched.graph, b.module, read);
  const std::string name = "chorus_forward_" + mode + (stacked ? "_stacked" : "_shared");
  addGraphMethod(b.module, b.ours(name), graph);
}

/// The graphs of a loss, batched: they get the stacked outputs and the stacked target.
void addLossGraphs(Builder& b, const LossCode& loss) {
  for (const auto& [name, member] : loss.graphs) {
    CanonicalGraph canonical;
    canonical.graph = member;
    canonical.n_inputs = member->inputs().size() - loss.graph_tensors.size();
    canonical.n_outputs = 1;
    std::vector<bool> flags(canonical.n_inputs, true);
    flags.resize(member->inputs().size(), false);
    BatchedGraph batched = batchGraph(*member, flags, /*stack_outputs=*/true, b.options.disabled);
    runPasses(batched.graph, fusedPipeline(), b.options.disabled);
    if (!b.options.counter_based_random) {
      requirePortable({batched.graph->block()});
      keepEagerGradients(*batched.graph, *member);
    }
    const auto read = [&](Graph& graph, Value* self, size_t i) {
      return insertRead(graph, self, b.ours("chorus") + "." + loss.graph_tensors.at(i));
    };
    addGraphMethod(b.module, b.ours(name), readingGraph(canonical, *batched.graph, b.module, read));
  }
}

/// The graphs from before fusing, as methods of the submodule chorus: all tensors are arguments.
/// They survive a save by Python, which drops extra files; so does the text of chorus.json.
void addMemberGraphs(Builder& b) {
  Module chorus = submodule(b.module, {b.ours("chorus")});
  chorus.register_attribute("json_text", c10::StringType::get(), fusedJson(b.model).dump());
  const Member& member = b.model.prototype;
  for (const CanonicalGraph* canonical : {&member.train, &member.eval}) {
    const bool partial = !b.model.partial.empty();
    const std::shared_ptr<Graph> graph =
        partial ? lowerChoices(*canonical->graph) : canonical->graph->copy();
    graph->insertInput(0, "self")->setType(chorus.type());
    for (size_t i = 1; i < graph->inputs().size(); ++i) {
      const bool is_input = i <= canonical->n_inputs;
      const size_t index = is_input ? i - 1 : i - 1 - canonical->n_inputs;
      graph->inputs()[i]->setDebugName((is_input ? "x" : "t") + std::to_string(index));
    }
    returnAsList(*graph);
    addGraphMethod(chorus, canonical == &member.train ? "member_train" : "member_eval", graph);
  }
}

FusedTextRequest textRequest(const Builder& b, const LossCode& loss) {
  const FusedModel& model = b.model;
  FusedTextRequest request;
  request.inputs = model.prototype.inputs;
  request.output = model.prototype.output;
  request.n_outputs = model.prototype.train.n_outputs;
  for (const CanonicalGraph* graph : {&model.prototype.train, &model.prototype.eval}) {
    for (const auto& entry : inputsThatAreLengths(*graph->graph)) {
      if (entry.first < graph->n_inputs) request.lengths.insert(entry.first);
    }
  }
  request.has_shared_graphs =
      !model.varying.empty() || std::count(model.stacked.begin(), model.stacked.end(), true) > 0;
  const auto aliases = [&](size_t slot) {
    std::vector<std::string> expressions;
    for (const std::string& alias : model.prototype.slots[slot].aliases) {
      expressions.push_back(b.expression(alias));
    }
    return expressions;
  };
  for (const size_t slot : trainableSlots(model)) {
    request.trainable.push_back(b.expression(b.slotPath(slot)));
    request.trainable_aliases.push_back(aliases(slot));
  }
  const auto updates = [&](const CanonicalGraph& graph) {
    std::vector<std::vector<std::string>> names;
    for (const size_t slot : graph.updates) {
      names.push_back(aliases(slot));
      names.back().insert(names.back().begin(), b.expression(b.slotPath(slot)));
    }
    return names;
  };
  request.train_updates = updates(model.prototype.train);
  request.eval_updates = updates(model.prototype.eval);
  for (const DtypeGroup& group : dtypeGroups(model)) {
    request.groups.push_back(group.members);
    request.group_suffixes.push_back(group.suffix);
    request.hyper_suffixes.push_back(hyperSuffix(group.hyper));
  }
  request.has_loss = model.loss.has_value();
  request.takes_target = !model.loss || findLoss(model.loss->name).takes_target;
  request.loss_body = loss.body;
  if (model.loss) {
    const LossDefinition& definition = findLoss(model.loss->name);
    request.more_targets = definition.more_targets.size();
    request.by_rows = definition.by_rows;
    const auto how = model.loss->arguments.find("reduction");
    request.sums_rows = how != model.loss->arguments.end() && how->second.front() == "sum";
    for (const auto& [name, tensor] : loss.constants) request.loss_constants.push_back(name);
  }
  request.optimizer = model.optimizer ? &*model.optimizer : nullptr;
  request.for_runtime = b.options.counter_based_random;
  return request;
}

void checkModel(const FusedModel& model) {
  const Member& member = model.prototype;
  const size_t slots = member.slots.size();
  const CanonicalGraph& train = member.train;
  if (model.tensors.size() != slots || model.stacked.size() != slots || !model.k()) {
    throw Refused(internalError("a fused model has tensors that do not match its slots"));
  }
  if (train.n_outputs != member.output.leaves() || member.eval.n_outputs != train.n_outputs) {
    throw Refused(internalError("train and eval graph have different outputs"));
  }
  for (const CanonicalGraph* graph : {&member.train, &member.eval}) {
    for (const size_t slot : graph->updates) {
      if (model.stacked[slot]) continue;
      throw Refused(unsupported("'" + member.slots[slot].name +
                                "' is shared by the members, but forward changes it"));
    }
  }
  if (model.optimizer) checkOptimizer(*model.optimizer, model.k());
}

}  // namespace

Module buildModule(const FusedModel& model, const BuildOptions& options) {
  checkModel(model);
  registerMarkerOps();
  Builder b{
      model, options, makeModule("__torch__.chorus.Fused"), {}, topLevelNames(model.prototype)};
  b.renamed = renamedNames(b.taken);
  const LossCode loss = model.loss ? buildLoss(model) : LossCode{};
  registerSlots(b);
  registerState(b, loss);
  addMemberGraphs(b);
  const FusedTextRequest request = textRequest(b, loss);
  const Member& member = model.prototype;
  addForward(b, member.train, "train", true, !request.has_shared_graphs);
  addForward(b, member.eval, "eval", true, false);
  if (request.has_shared_graphs) {
    addForward(b, member.train, "train", false, true);
    addForward(b, member.eval, "eval", false, false);
  }
  addLossGraphs(b, loss);
  b.module.define(renameTaken(fusedText(request), b.renamed), gradModeResolver(b.module));
  return b.module;
}

}  // namespace chorus
