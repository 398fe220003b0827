#include "lib/export/fused_json.h"

#include <torch/version.h>

#include "lib/export/fused_text.h"
#include "lib/export/module_tree.h"
#include "lib/export/partial_json.h"
#include "lib/export/slot_json.h"
#include "lib/export/state.h"
#include "lib/export/varying.h"
#include "lib/support/packed_name.h"

namespace chorus {

using nlohmann::json;

namespace {

template <typename T>
json optionalJson(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

std::optional<int64_t> optionalInt(const json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<int64_t>();
}

const std::map<std::string, OutputTree::Kind> kLeaves = {
    {"tensor", OutputTree::Kind::Tensor},
    {"none", OutputTree::Kind::None},
    {"tensor in training", OutputTree::Kind::TensorInTraining},
    {"tensor in eval", OutputTree::Kind::TensorInEval}};

json treeJson(const OutputTree& tree) {
  for (const auto& [name, kind] : kLeaves) {
    if (tree.kind == kind) return name;
  }
  json children = json::array();
  for (size_t i = 0; i < tree.children.size(); ++i) {
    json child = treeJson(tree.children[i]);
    if (tree.kind == OutputTree::Kind::Dict) child = json::array({tree.keys[i], child});
    children.push_back(child);
  }
  const char* kind = tree.kind == OutputTree::Kind::Tuple  ? "tuple"
                     : tree.kind == OutputTree::Kind::List ? "list"
                                                           : "dict";
  return {{kind, children}};
}

OutputTree treeFrom(const json& value) {
  OutputTree tree;
  if (value.is_string()) {
    tree.kind = kLeaves.at(value.get<std::string>());
    return tree;
  }
  const std::string kind = value.begin().key();
  tree.kind = kind == "tuple"  ? OutputTree::Kind::Tuple
              : kind == "list" ? OutputTree::Kind::List
                               : OutputTree::Kind::Dict;
  for (const json& child : value.begin().value()) {
    if (tree.kind == OutputTree::Kind::Dict) tree.keys.push_back(child.at(0).get<std::string>());
    tree.children.push_back(treeFrom(tree.kind == OutputTree::Kind::Dict ? child.at(1) : child));
  }
  return tree;
}

json inputsJson(const std::vector<InputSpec>& inputs) {
  json list = json::array();
  for (const InputSpec& input : inputs) {
    json sizes = json::array();
    for (const auto& size : input.sizes) sizes.push_back(optionalJson(size));
    list.push_back({{"dtype", dtypeName(input.dtype)},
                    {"sizes", sizes},
                    {"bound", optionalJson(input.bound)}});
  }
  return list;
}

InputSpec inputFrom(const json& value) {
  InputSpec input;
  input.dtype = dtypeFromName(value.at("dtype").get<std::string>()).value();
  for (const json& size : value.at("sizes")) input.sizes.push_back(optionalInt(size));
  input.bound = optionalInt(value.at("bound"));
  return input;
}

json slotsJson(const FusedModel& model) {
  const std::vector<size_t> trainable = trainableSlots(model);
  json list = json::array();
  for (size_t i = 0; i < model.prototype.slots.size(); ++i) {
    json slot = slotJson(model.prototype.slots[i]);
    slot["stacked"] = static_cast<bool>(model.stacked[i]);
    slot["trainable"] = std::count(trainable.begin(), trainable.end(), i) > 0;
    slot["path"] = slotPath(model, i);
    list.push_back(std::move(slot));
  }
  return list;
}

json ownNamesJson(const FusedModel& model) {
  json list = json::array();
  for (const OwnNames& names : model.own_names) {
    list.push_back({{"slots", names.slots}, {"modules", modulesJson(names.modules)}});
  }
  return list;
}

json lossJson(const FusedModel& model) {
  if (!model.loss) return nullptr;
  const LossCode code = buildLoss(model);
  json tensors = json::array(), stacked = json::array();
  for (const auto& [name, tensor] : model.loss->tensors) tensors.push_back(name);
  for (const auto& [name, values] : model.loss->arguments) {
    if (code.constants.count("loss_" + name)) stacked.push_back(name);
  }
  return {{"name", model.loss->name},
          {"arguments", model.loss->arguments},
          {"tensors", tensors},
          {"stacked", stacked}};
}

json randomNodesJson(const FusedModel& model) {
  json list = json::array();
  for (const RandomNodes& nodes : model.random_nodes) {
    list.push_back({{"train", nodes.train}, {"eval", nodes.eval}});
  }
  return list;
}

json optimizerJson(const FusedModel& model) {
  if (!model.optimizer) return nullptr;
  json names = json::array(), state = json::array(), groups = json::array();
  for (const ParameterGroup& group : model.optimizer->groups) groups.push_back(group.parameters);
  for (const auto& [name, values] : model.optimizer->values) names.push_back(name);
  for (const auto& [name, tensor] : optimizerState(model)) state.push_back(name);
  return {{"name", model.optimizer->name},
          {"flags", model.optimizer->flags},
          {"hyperparameters", names},
          {"groups", groups},
          {"state", state}};
}

json extraNames(const FusedModel& model) {
  json list = json::array();
  for (const auto& [name, tensor] : model.extra) list.push_back(name);
  return list;
}

json varyingJson(const FusedModel& model) {
  json list = json::array();
  for (size_t i = 0; i < model.varying.size(); ++i) {
    json places = json::array();
    for (const VaryingNumber::Place& place : model.varying[i].places) {
      places.push_back({{"mode", place.eval ? "eval" : "train"},
                        {"op", place.op},
                        {"name", place.name},
                        {"operand", place.operand}});
    }
    list.push_back({{"title", varyingTitle(model, model.varying[i])},
                    {"tensor", varyingName(i)},
                    {"places", places}});
  }
  return list;
}

}  // namespace

std::string chorusName(const FusedModel& model) {
  const auto renamed = renamedNames(topLevelNames(model.prototype));
  const auto found = renamed.find("chorus");
  return found == renamed.end() ? "chorus" : found->second;
}

std::string slotPath(const FusedModel& model, size_t slot) {
  const TensorSlot& s = model.prototype.slots[slot];
  if (s.role == Role::Constant) return chorusName(model) + "." + constantName(model, slot);
  if (!isPackedName(s.name)) return s.name;
  return chorusName(model) + ".own." + s.name.substr(kPackedPrefix.size());
}

json fusedJson(const FusedModel& model) {
  const Member& member = model.prototype;
  json members = json::array();
  for (size_t i = 0; i < model.k(); ++i) {
    members.push_back(
        {{"name", model.member_names[i]}, {"seed", std::to_string(model.member_seeds.at(i))}});
  }
  return {
      {"format", kFusedFormat},
      {"chorus", CHORUS_VERSION},
      {"torch", TORCH_VERSION},
      {"k", model.k()},
      {"members", members},
      {"inputs", inputsJson(member.inputs)},
      {"output", treeJson(member.output)},
      {"n_outputs", member.train.n_outputs},
      {"train_updates", member.train.updates},
      {"eval_updates", member.eval.updates},
      {"slots", slotsJson(model)},
      {"modules", modulesJson(member.modules)},
      {"traced", member.traced},
      {"code_trains", member.code_trains},
      {"code_evaluates", member.code_evaluates},
      {"example_batch", member.example_batch},
      {"own_names", ownNamesJson(model)},
      {"random_nodes", randomNodesJson(model)},
      {"varying", varyingJson(model)},
      {"extra", extraNames(model)},
      {"fixed_batch", optionalJson(member.fixed_batch)},
      {"fixed_batch_place",
       json::array({member.fixed_batch_place.file, member.fixed_batch_place.source,
                    member.fixed_batch_place.source_line, member.fixed_batch_place.module_path})},
      {"loss", lossJson(model)},
      {"optimizer", optimizerJson(model)},
      {"partial", partialJson(model.partial)},
      {"elastic", model.partial.empty()},
      {"info", model.info}};
}

namespace {

VaryingNumber varyingFrom(const json& value) {
  VaryingNumber number;
  for (const json& place : value.at("places")) {
    number.places.push_back({place.at("mode") == "eval", place.at("op").get<size_t>(),
                             place.at("name").get<std::string>(),
                             place.at("operand").get<size_t>()});
  }
  return number;
}

void readMember(const json& value, Member& member) {
  for (const json& input : value.at("inputs")) member.inputs.push_back(inputFrom(input));
  member.output = treeFrom(value.at("output"));
  member.train.n_outputs = member.eval.n_outputs = value.at("n_outputs").get<size_t>();
  member.train.n_inputs = member.eval.n_inputs = member.inputs.size();
  member.train.updates = value.at("train_updates").get<std::vector<size_t>>();
  member.eval.updates = value.at("eval_updates").get<std::vector<size_t>>();
  member.modules = modulesFrom(value.at("modules"));
  member.traced = value.at("traced").get<bool>();
  member.code_trains = value.at("code_trains").get<bool>();
  member.code_evaluates = value.at("code_evaluates").get<bool>();
  member.example_batch = value.at("example_batch").get<int64_t>();
  member.fixed_batch = optionalInt(value.at("fixed_batch"));
  const json& place = value.at("fixed_batch_place");
  member.fixed_batch_place = {place.at(0).get<std::string>(), place.at(1).get<std::string>(),
                              place.at(2).get<std::string>(), place.at(3).get<std::string>()};
}

void readOwnNames(const json& value, FusedModel& model) {
  for (const json& entry : value.at("own_names")) {
    OwnNames names;
    names.slots = entry.at("slots").get<std::vector<std::vector<std::string>>>();
    names.modules = modulesFrom(entry.at("modules"));
    model.own_names.push_back(std::move(names));
  }
}

void readTraining(const json& value, FusedFrame& frame) {
  if (const json& loss = value.at("loss"); !loss.is_null()) {
    LossSpec spec;
    spec.name = loss.at("name").get<std::string>();
    spec.arguments = loss.at("arguments").get<std::map<std::string, std::vector<std::string>>>();
    frame.model.loss = spec;
    frame.loss_tensors = loss.at("tensors").get<std::vector<std::string>>();
    frame.loss_stacked = loss.at("stacked").get<std::vector<std::string>>();
  }
  if (const json& optimizer = value.at("optimizer"); !optimizer.is_null()) {
    OptimizerSpec spec;
    spec.name = optimizer.at("name").get<std::string>();
    spec.flags = optimizer.at("flags").get<std::map<std::string, bool>>();
    for (const json& name : optimizer.at("hyperparameters")) {
      spec.values[name.get<std::string>()] = {};
    }
    for (const json& parameters : optimizer.value("groups", json::array())) {
      spec.groups.push_back({parameters.get<std::vector<std::string>>(), spec.values});
    }
    frame.model.optimizer = spec;
    frame.state_names = optimizer.at("state").get<std::vector<std::string>>();
  }
}

FusedFrame readFrame(const json& value) {
  FusedFrame frame;
  for (const json& member : value.at("members")) {
    frame.model.member_names.push_back(member.at("name").get<std::string>());
    frame.model.member_seeds.push_back(std::stoull(member.at("seed").get<std::string>()));
  }
  Member& prototype = frame.model.prototype;
  readMember(value, prototype);
  readOwnNames(value, frame.model);
  for (const json& slot : value.at("slots")) {
    prototype.slots.push_back(slotFrom(slot));
    frame.model.stacked.push_back(slot.at("stacked").get<bool>());
    frame.slot_paths.push_back(slot.at("path").get<std::string>());
  }
  for (const CanonicalGraph* graph : {&prototype.train, &prototype.eval}) {
    for (const size_t slot : graph->updates) prototype.slots.at(slot);
  }
  if (frame.model.member_names.empty()) throw std::runtime_error("no members");
  prototype.name = frame.model.member_names[0];
  prototype.seed = frame.model.member_seeds[0];
  readTraining(value, frame);
  for (const json& nodes : value.value("random_nodes", json::array())) {
    frame.model.random_nodes.push_back({nodes.at("train").get<std::vector<int64_t>>(),
                                        nodes.at("eval").get<std::vector<int64_t>>()});
  }
  for (const json& number : value.value("varying", json::array())) {
    frame.model.varying.push_back(varyingFrom(number));
  }
  frame.model.partial = partialFrom(value.value("partial", json::array()), frame.model);
  frame.extra_names = value.value("extra", std::vector<std::string>());
  frame.model.info = value.at("info");
  return frame;
}

}  // namespace

FusedFrame readFusedJson(const std::string& text, const std::string& path) {
  const Place place{path, "", "", ""};
  try {
    const json value = json::parse(text);
    const int format = value.at("format").get<int>();
    if (format > kFusedFormat) {
      throw Refused(error("the fused file has format " + std::to_string(format) +
                              ", and this chorus reads up to " + std::to_string(kFusedFormat),
                          place)
                        .helpWith("use the newer chorus that wrote it (" +
                                  value.value("chorus", std::string("unknown")) + ")"));
    }
    return readFrame(value);
  } catch (const Refused&) {
    throw;
  } catch (const std::exception& failure) {
    throw Refused(error("the fused file's chorus.json is damaged", place).note(failure.what()));
  }
}

}  // namespace chorus
