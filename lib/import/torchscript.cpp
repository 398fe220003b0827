// TorchScript archive -> Member.
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/import_read.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "chorus/equivalence.h"
#include "chorus/import.h"
#include "chorus/pass.h"
#include "chorus/scan.h"
#include "lib/import/both_outputs.h"
#include "lib/import/example_run.h"
#include "lib/import/specialize.h"
#include "lib/import/trace_numbers.h"
#include "lib/support/archive_record.h"
#include "lib/support/explicit_autocast.h"
#include "lib/support/hash.h"
#include "lib/support/inline_calls.h"

namespace chorus {
namespace {

using torch::jit::Module;

struct Loaded {
  Module module;
  std::vector<InputSpec> traced_inputs;  ///< empty: none are stored, or not all are tensors
  bool traced = false;
};

class SilentWarnings : c10::WarningHandler {
 public:
  SilentWarnings() : guard_(this) {}
  void process(const c10::Warning&) override {}

 private:
  c10::WarningUtils::WarningHandlerGuard guard_;
};

std::string firstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

/// The example inputs as the trace stored them. Their records hold no values: only the shapes may
/// be read. LibTorch's own way to them (restore_shapes) also propagates shapes, and writes out of
/// bounds for `x.chunk(3, -1)`.
std::vector<InputSpec> storedInputs(const std::string& path) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  if (!reader.hasRecord("traced_inputs.pkl")) return {};
  const c10::IValue stored =
      torch::jit::readArchiveAndTensors("traced_inputs", "", "traced_inputs/", std::nullopt,
                                        std::nullopt, c10::Device(at::kCPU), reader);
  std::vector<InputSpec> specs;
  for (const auto& entry : stored.toGenericDict()) {
    if (entry.key().toStringRef() != "forward") continue;
    if (!entry.value().isList()) return {};
    for (const c10::IValue& input : entry.value().toListRef()) {
      if (!input.isTensor()) return {};
      InputSpec spec;
      spec.dtype = input.toTensor().scalar_type();
      for (const int64_t size : input.toTensor().sizes()) spec.sizes.push_back(size);
      specs.push_back(spec);
    }
  }
  return specs;
}

Loaded load(const std::string& path) {
  Loaded loaded;
  try {
    const SilentWarnings silent;  // of features that are old, and of scripts
    auto unit = std::make_shared<torch::jit::CompilationUnit>();
    torch::jit::ExtraFilesMap none;
    loaded.module = torch::jit::import_ir_module(unit, path, c10::Device(at::kCPU), none, true);
    loaded.traced_inputs = storedInputs(path);
  } catch (const std::exception& failure) {
    throw Refused(
        error("LibTorch cannot load it: " + firstLine(failure.what()), Place{path, "", "", ""}));
  }
  return loaded;
}

/// Flags that are written as constants into the code: a trace. Batch norm without statistics always
/// trains.
std::vector<bool> bakedFlags(Graph& code) {
  auto inlined = code.copy();
  inlineCalls(*inlined);
  std::vector<bool> flags;
  const std::function<void(torch::jit::Block*)> visit = [&](torch::jit::Block* block) {
    for (Node* node : block->nodes()) {
      for (torch::jit::Block* inner : node->blocks()) visit(inner);
      const c10::FunctionSchema* schema = node->maybeSchema();
      if (!schema) continue;
      // Attention has no flag: what drops is training; what does not, tells nothing.
      if (schema->name() == "aten::scaled_dot_product_attention") {
        const auto p = torch::jit::toIValue(node->inputs()[4]);
        if (p && p->isDouble() && p->toDouble() > 0) flags.push_back(true);
      }
      const auto& arguments = schema->arguments();
      for (size_t i = 0; i < arguments.size() && i < node->inputs().size(); ++i) {
        const std::string& name = arguments[i].name();
        if (name != "train" && name != "training" && name != "use_input_stats") continue;
        const auto value = torch::jit::toIValue(node->inputs()[i]);
        const bool norm =
            schema->name() == "aten::batch_norm" || schema->name() == "aten::instance_norm";
        if (!value || !value->isBool() || (norm && node->inputs()[3]->mustBeNone())) continue;
        flags.push_back(value->toBool());
      }
    }
  };
  visit(inlined->block());
  return flags;
}

std::vector<bool> moduleFlags(const Module& module) {
  std::vector<bool> flags;
  for (const Module& part : module.modules()) {
    if (part.hasattr("training") && part.attr("training").isBool())
      flags.push_back(part.is_training());
  }
  return flags;
}

bool sameTensor(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() > 0 && a.data_ptr() == b.data_ptr() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

void addSlot(std::vector<TensorSlot>& slots, const std::string& file, const std::string& name,
             Role role, const at::Tensor& tensor) {
  for (TensorSlot& slot : slots) {
    if (sameTensor(slot.value, tensor)) {
      slot.aliases.push_back(name);
      return;
    }
    if (tensor.numel() > 0 && slot.value.numel() > 0 &&
        slot.value.storage().is_alias_of(tensor.storage())) {
      throw Refused(
          unsupported("'" + name + "' and '" + slot.name + "' are different views of one memory",
                      Place{file, "", "", ""}));
    }
  }
  if (tensor.layout() != at::kStrided || tensor.is_quantized()) {
    throw Refused(
        unsupported("'" + name + "' is a sparse or quantized tensor", Place{file, "", "", ""}));
  }
  slots.push_back(TensorSlot{name, {}, role, tensor, tensor.requires_grad()});
}

/// Depth first in the order of definition: names, roles, ties.
void collectSlots(const Module& module, const std::string& prefix, const std::string& file,
                  std::vector<TensorSlot>& slots) {
  const auto type = module.type();
  for (size_t i = 0; i < type->numAttributes(); ++i) {
    const std::string path = prefix + type->getAttributeName(i);
    const c10::IValue value = module._ivalue()->getSlot(i);
    if (value.isTensor() && value.toTensor().defined()) {
      addSlot(slots, file, path, type->is_parameter(i) ? Role::Parameter : Role::Buffer,
              value.toTensor());
    } else if (value.isModule()) {
      collectSlots(value.toModule(), path + ".", file, slots);
    }
  }
}

void collectModules(const Module& module, const std::string& path,
                    std::vector<ModuleRecord>& modules) {
  modules.push_back({path, module.type()->name() ? module.type()->name()->name() : ""});
  for (const auto& child : module.named_children()) {
    collectModules(child.value, path.empty() ? child.name : path + "." + child.name, modules);
  }
}

/// The leading size of the first input is the batch size; inputs that begin with the same size
/// share it.
int64_t markBatch(std::vector<InputSpec>& specs) {
  for (const InputSpec& spec : specs) {
    for (const auto& size : spec.sizes) {
      if (!size) return 0;  // written with N
    }
  }
  if (specs.empty() || specs[0].sizes.empty()) return 0;
  const int64_t n = *specs[0].sizes[0];
  if (n == 0) return 0;  // a batch of none says nothing about others
  for (InputSpec& spec : specs) {
    if (!spec.sizes.empty() && *spec.sizes[0] == n) spec.sizes[0] = std::nullopt;
  }
  return n;
}

/// What chorus wrote beside a member of its own (lib/export/member_record.cpp); else an empty
/// object.
nlohmann::json memberRecordOf(const std::string& path) {
  const auto text = extraRecord(path, "chorus_member.json");
  if (!text) return nlohmann::json::object();
  const auto value = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return value.is_object() ? value : nlohmann::json::object();
}

std::vector<InputSpec> recordedInputs(const std::string& path) {
  std::vector<InputSpec> inputs;
  const nlohmann::json record = memberRecordOf(path);
  if (!record.contains("inputs") || !record["inputs"].is_array()) return inputs;
  for (const auto& spec : record["inputs"]) {
    if (!spec.is_string()) return {};
    inputs.push_back(parseInputSpec(spec.get<std::string>()));
  }
  return inputs;
}

/// What floating data are cast to: the stored example input's dtype, else the first parameter's.
at::ScalarType floatingDtype(const Loaded& loaded, size_t input) {
  if (input < loaded.traced_inputs.size()) return loaded.traced_inputs[input].dtype;
  for (const at::Tensor& parameter : loaded.module.parameters()) {
    if (at::isFloatingType(parameter.scalar_type())) return parameter.scalar_type();
  }
  return at::kFloat;
}

std::vector<InputSpec> inputsOf(const Loaded& loaded, const ImportOptions& options,
                                const Graph& code, const std::string& path) {
  const size_t expected = code.inputs().size() - 1;
  if (options.inputs.empty()) {
    if (loaded.traced_inputs.size() == expected) return loaded.traced_inputs;
    if (const auto stored = recordedInputs(path); !stored.empty() && stored.size() <= expected) {
      return stored;
    }
    throw Refused(error("the file stores no example inputs, so their shapes are not known",
                        Place{path, "", "", ""})
                      .helpWith("give --input once per input, e.g. --input f32[N,3,32,32]"));
  }
  const auto schema = loaded.module.get_method("forward").function().getSchema();
  size_t required = 0;
  for (size_t i = 1; i < schema.arguments().size(); ++i)
    required += !schema.arguments()[i].default_value();
  const size_t given = options.inputs.size();
  if (given < required || given > expected) {
    const std::string where = options.inputs_are_data
                                  ? "--example gives " + std::to_string(given)
                                  : "--input is given " + std::to_string(given) + " times";
    throw Refused(error("the model takes " + std::to_string(expected) +
                            (expected == 1 ? " input, and " : " inputs, and ") + where,
                        Place{path, "", "", ""}));
  }
  std::vector<InputSpec> inputs = options.inputs;
  for (size_t i = 0; options.inputs_are_data && i < given; ++i) {
    if (at::isFloatingType(inputs[i].dtype)) inputs[i].dtype = floatingDtype(loaded, i);
  }
  return inputs;
}

/// The code to specialise: the module's own, or with its autocast regions as casts.
std::shared_ptr<Graph> codeOf(const Module& module) {
  const auto code = module.get_method("forward").graph();
  auto inlined = code->copy();
  inlineCalls(*inlined);
  return makeAutocastExplicit(inlined) ? inlined : code;
}

Specialized specializeBoth(const Module& module, SpecializeRequest request, Member& member) {
  const std::shared_ptr<Graph> shared_code = codeOf(module);
  const Graph& code = *shared_code;
  if (!member.fixed_batch) {
    try {
      return specialize(code, &module, request);
    } catch (const BatchSizeFixed& fixed) {
      member.fixed_batch = request.first_n;
      member.fixed_batch_place = fixed.place;
    }
  }
  request.second_n = request.first_n;
  return specialize(code, &module, request);
}

void adopt(CanonicalGraph& into, Specialized made) {
  into = std::move(made.canonical);
  runPasses(into.graph, canonicalPipeline());
}

Message evalTraceWarning(const std::string& path) {
  return warning(
             "the trace was made in eval mode: what the network does only when it trains may be "
             "missing",
             Place{path, "", "", ""})
      .helpWith(
          "export in train mode: model.train(); torch.jit.trace(model, "
          "example_inputs).save(\"model.pt\")");
}

/// Of structure and tensors; no names, no debug data.
uint64_t seedOf(const Member& member) {
  uint64_t seed = functionHash(member);
  for (const TensorSlot& slot : member.slots) seed = mixHash(seed, hashTensor(slot.value));
  return seed;
}

/// Its seed stays what it was when the member was first fused or trained.
std::optional<uint64_t> storedSeed(const nlohmann::json& record) {
  if (!record.contains("seed") || !record["seed"].is_string()) return std::nullopt;
  const std::string text = record["seed"].get<std::string>();
  uint64_t seed = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return seed;
}

ModeReading readMode(const Module& module, Graph& code, bool traced, ModePolicy policy,
                     const std::string& path, Member& member) {
  const std::vector<bool> flags = traced ? bakedFlags(code) : moduleFlags(module);
  ModeReading mode;
  mode.baked = traced;
  mode.as_traced = policy == ModePolicy::AsTraced;
  const bool any = std::find(flags.begin(), flags.end(), true) != flags.end();
  mode.mixed = any && std::find(flags.begin(), flags.end(), false) != flags.end();
  if (traced && !flags.empty()) {
    member.code_trains = any || mode.as_traced;
    member.code_evaluates = !any || mode.as_traced;
  }
  if (traced && !any && (!flags.empty() || !module.is_training()))
    member.remarks.push_back(evalTraceWarning(path));
  return mode;
}

}  // namespace

Member importTorchScript(const std::string& path, const ImportOptions& options) {
  scanArchive(path);
  const Loaded loaded = load(path);
  const auto forward = loaded.module.find_method("forward");
  if (!forward) throw Refused(error("the module has no forward method", Place{path, "", "", ""}));
  Graph& code = *forward->graph();

  Member member;
  member.name = options.name.empty() ? std::filesystem::path(path).stem().string() : options.name;
  member.path = path;
  member.traced =
      loaded.traced_inputs.size() + 1 == code.inputs().size() && !loaded.traced_inputs.empty();
  member.inputs = inputsOf(loaded, options, code, path);
  const int64_t stored_n = markBatch(member.inputs);
  collectSlots(loaded.module, "", path, member.slots);
  collectModules(loaded.module, "", member.modules);

  SpecializeRequest request;
  request.inputs = member.inputs;
  request.slots = member.slots;
  request.file = path;
  request.mode = readMode(loaded.module, code, member.traced, options.mode, path, member);
  request.first_n = member.example_batch = stored_n > 0 ? stored_n : 2;
  request.second_n = 3 * request.first_n;

  Specialized train = specializeBoth(loaded.module, request, member);
  request.mode.training = false;
  request.slots = train.slots;  // constants of the train graph first
  Specialized eval = specializeBoth(loaded.module, request, member);
  member.slots = eval.slots;
  member.output = bothOutputs(train, eval, path);
  // Constants that only the eval graph has are inputs of both.
  while (train.canonical.graph->inputs().size() < eval.canonical.graph->inputs().size()) {
    const Value* extra = eval.canonical.graph->inputs()[train.canonical.graph->inputs().size()];
    train.canonical.graph->addInput()->setType(extra->type());
  }
  adopt(member.train, std::move(train));
  adopt(member.eval, std::move(eval));
  // A trace of the training step moves its buffers in eval mode too; the eval graph does not.
  if (member.traced && !request.mode.as_traced && member.train.updates != member.eval.updates)
    member.code_evaluates = false;
  writeTraceNumbers(member);
  warnOfTracedAverages(member);
  member.seed = storedSeed(memberRecordOf(path)).value_or(seedOf(member));
  return member;
}

}  // namespace chorus
