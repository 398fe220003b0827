#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/import.h>

#include <filesystem>

#include "chorus/scan.h"
#include "lib/export/fused_json.h"
#include "lib/export/module_tree.h"
#include "lib/export/partial_json.h"
#include "lib/export/state.h"
#include "lib/export/varying.h"
#include "lib/import/specialize.h"
#include "lib/losses/arguments.h"
#include "lib/partial/combine.h"

namespace chorus {

namespace {

using torch::jit::Module;

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw Refused(error("the fused file is damaged: " + what, {path, "", "", ""}));
}

/// The submodule that is called chorus, or chorus_chorus, ... where the member has one of that
/// name.
std::optional<Module> chorusModule(const Module& module) {
  for (std::string name = "chorus"; name.size() < 64; name = "chorus_" + name) {
    if (!module.hasattr(name) || !module.attr(name).isModule()) continue;
    const Module found = module.attr(name).toModule();
    if (found.hasattr("json_text") && found.find_method("member_train")) return found;
  }
  return std::nullopt;
}

struct Reader {
  const std::string& path;
  const Module& module;
  const Module& chorus;
  FusedFrame frame;

  at::Tensor mustRead(const Module& root, const std::string& name) const {
    const at::Tensor tensor = tensorAt(root, name);
    if (!tensor.defined()) damaged(path, "there is no tensor '" + name + "'");
    return tensor.detach();
  }
  at::Tensor stacked(const Module& root, const std::string& name) const {
    const at::Tensor tensor = mustRead(root, name);
    const auto k = static_cast<int64_t>(frame.model.k());
    if (tensor.dim() == 0 || tensor.size(0) != k) {
      damaged(path, "'" + name + "' is not stacked for " + std::to_string(k) + " members");
    }
    return tensor;
  }
};

void readTensors(Reader& r) {
  FusedModel& model = r.frame.model;
  for (size_t i = 0; i < r.frame.slot_paths.size(); ++i) {
    const std::string& name = r.frame.slot_paths[i];
    model.tensors.push_back(model.stacked[i] ? r.stacked(r.module, name)
                                             : r.mustRead(r.module, name));
    TensorSlot& slot = model.prototype.slots[i];
    if (slot.role == Role::Constant) slot.value = model.tensors[i];
  }
  model.active = r.stacked(r.chorus, "active");
  model.step = r.stacked(r.chorus, "step");
  for (size_t i = 0; i < model.varying.size(); ++i) {
    model.varying[i].values = r.stacked(r.chorus, varyingName(i));
  }
  for (const std::string& name : r.frame.state_names) model.state[name] = r.stacked(r.chorus, name);
  for (const std::string& name : r.frame.extra_names) {
    model.extra[name] = r.stacked(r.chorus, "extra." + name);
  }
}

std::string numberText(const at::Tensor& scalar) {
  if (!scalar.is_floating_point()) return std::to_string(scalar.item<int64_t>());
  return losses::numberText(scalar.item<double>());
}

void readHyperparameters(const Reader& r, std::map<std::string, std::vector<double>>& all,
                         const std::string& suffix) {
  for (auto& [name, values] : all) {
    const at::Tensor tensor = r.stacked(r.chorus, name + suffix).to(at::kDouble).contiguous();
    if (tensor.dim() != 1) damaged(r.path, "'" + name + "' is not one number per member");
    values.assign(tensor.data_ptr<double>(), tensor.data_ptr<double>() + tensor.numel());
  }
}

/// The tensors in the module are the truth: a user may have changed m.chorus.lr.
void readTraining(Reader& r) {
  FusedModel& model = r.frame.model;
  const auto k = static_cast<int64_t>(model.k());
  if (model.optimizer) {
    readHyperparameters(r, model.optimizer->values, "");
    for (size_t g = 0; g < model.optimizer->groups.size(); ++g) {
      readHyperparameters(r, model.optimizer->groups[g].values, hyperSuffix(g + 1));
    }
  }
  for (const std::string& name : r.frame.loss_tensors) {
    model.loss->tensors[name] = r.mustRead(r.chorus, "loss_" + name);
  }
  for (const std::string& name : r.frame.loss_stacked) {
    const at::Tensor tensor = r.stacked(r.chorus, "loss_" + name);
    auto& texts = model.loss->arguments[name];
    texts.clear();
    for (int64_t i = 0; i < k; ++i) texts.push_back(numberText(tensor[i]));
  }
}

/// member_train or member_eval, with its list unpacked again.
void readGraph(const Reader& r, const std::string& name, bool training, CanonicalGraph& out) {
  const auto method = r.chorus.find_method(name);
  if (!method) damaged(r.path, "it has no method chorus." + name);
  const Member& member = r.frame.model.prototype;
  std::vector<TensorSlot> slots = member.slots;
  for (size_t i = 0; i < slots.size(); ++i) {
    const at::Tensor& tensor = r.frame.model.tensors[i];
    slots[i].value = r.frame.model.stacked[i] ? tensor.select(0, 0) : tensor;
  }
  const std::shared_ptr<Graph> graph = method->graph()->copy();
  const std::vector<PartialMember>& partial = r.frame.model.partial;
  if (graph->inputs().size() != 1 + member.inputs.size() + slots.size() + !partial.empty()) {
    damaged(r.path, "chorus." + name + " takes other tensors than the file has");
  }
  const int64_t batch = member.fixed_batch.value_or(member.example_batch);
  CanonicalGraph made = partial.empty()
                            ? recanonicalise(graph, member.inputs, slots, training, batch)
                            : partial::canonicalChoices(graph, out, member.inputs, slots, training,
                                                        batch, variantsOf(partial));
  if (made.graph->outputs().size() != out.n_outputs + out.updates.size()) {
    damaged(r.path, "chorus." + name + " returns other tensors than chorus.json says");
  }
  made.n_outputs = out.n_outputs;
  made.n_inputs = member.inputs.size();
  made.updates = out.updates;
  out = made;
}

void checkVarying(const Reader& r) {
  const Member& member = r.frame.model.prototype;
  for (const VaryingNumber& number : r.frame.model.varying) {
    const auto dtype = number.values.scalar_type();
    if (number.values.dim() != 1 || (dtype != at::kDouble && dtype != at::kLong)) {
      damaged(r.path, "a varying number is not one number per member in f64 or i64");
    }
    for (const VaryingNumber::Place& place : number.places) {
      varyingNode(*(place.eval ? member.eval : member.train).graph, place);
    }
  }
}

}  // namespace

bool isFusedFile(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return false;
  try {
    caffe2::serialize::PyTorchStreamReader reader(path);
    for (const std::string& record : reader.getAllRecords()) {
      if (record == "extra/chorus.json" || record.rfind("code/__torch__/chorus.py", 0) == 0 ||
          record.rfind("code/__torch__/chorus/", 0) == 0) {
        return true;
      }
    }
  } catch (const std::exception&) {
    return false;  // no archive at all: scanArchive says what it is
  }
  return false;
}

FusedModel readFused(const std::string& path) {
  scanArchive(path);
  std::optional<Module> module;
  try {
    module = torch::jit::load(path, at::kCPU);
  } catch (const std::exception& failure) {
    const std::string why = failure.what();
    throw Refused(error("LibTorch cannot read the file", {path, "", "", ""})
                      .note(why.substr(0, why.find('\n'))));
  }
  const std::optional<Module> chorus = chorusModule(*module);
  if (!chorus) throw Refused(error("this is not a fused file", {path, "", "", ""}));
  const c10::IValue text = chorus->attr("json_text");
  if (!text.isString()) damaged(path, "chorus.json_text is no string");
  Reader r{path, *module, *chorus, readFusedJson(text.toStringRef(), path)};
  readTensors(r);
  readTraining(r);
  checkPartial(r.frame.model, path);
  readGraph(r, "member_train", true, r.frame.model.prototype.train);
  readGraph(r, "member_eval", false, r.frame.model.prototype.eval);
  checkVarying(r);
  r.frame.model.prototype.path = path;
  return r.frame.model;
}

}  // namespace chorus
