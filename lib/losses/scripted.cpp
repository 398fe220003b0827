#include "lib/losses/scripted.h"

#include <torch/csrc/jit/serialization/import.h>

#include <filesystem>
#include <fstream>
#include <mutex>

#include "chorus/import.h"
#include "chorus/scan.h"
#include "lib/export/fill.h"
#include "lib/support/fault.h"
#include "lib/support/hash.h"
#include "lib/support/memory_file.h"
#include "lib/support/random_ops.h"

namespace chorus::losses {
namespace {

constexpr int64_t kLargest = int64_t{64} << 20;

std::string pathOf(const LossSpec& spec) {
  const auto found = spec.arguments.find("path");
  return found == spec.arguments.end() || found->second.empty() ? "" : found->second.front();
}

std::string bytesOf(const LossSpec& spec) {
  const auto found = spec.tensors.find("file");
  if (found == spec.tensors.end()) {
    throw Refused(
        usage("'scripted' is no loss by itself")
            .helpWith("--loss takes the path of a scripted loss, e.g. --loss my_loss.pt"));
  }
  const at::Tensor bytes = found->second.to(at::kCPU).contiguous();
  if (bytes.scalar_type() != at::kByte || bytes.dim() != 1 || bytes.numel() > kLargest) {
    throw Refused(error("the loss in the file is damaged", Place{pathOf(spec), "", "", ""}));
  }
  return {reinterpret_cast<const char*>(bytes.data_ptr<uint8_t>()),
          static_cast<size_t>(bytes.numel())};
}

/// What `work` refuses about the file in memory is said of the user's own.
template <typename Work>
auto asUserFile(const LossSpec& spec, const Work& work) {
  const std::string bytes = bytesOf(spec);
  const MemoryFile file(bytes);
  try {
    return work(file.path());
  } catch (const Refused& refused) {
    std::vector<Message> messages = refused.messages();
    for (Message& message : messages) {
      if (message.place.file == file.path()) message.place.file = pathOf(spec);
      message.note("this is about the loss '" + pathOf(spec) + "'");
    }
    throw Refused(messages);
  }
}

[[noreturn]] void refuse(const LossSpec& spec, const std::string& text,
                         const std::string& help = "", Place place = {}) {
  place.file = pathOf(spec);
  throw Refused(error(text, place).helpWith(help));
}

std::vector<InputSpec> outputSpecs(const LossRequest& request) {
  std::vector<InputSpec> specs;
  for (size_t i = 0; i < request.output_ranks.size(); ++i) {
    specs.push_back({request.output_dtypes[i], request.output_sizes[i], std::nullopt});
  }
  return specs;
}

void checkArguments(const LossSpec& spec, const torch::jit::Module& module, size_t outputs) {
  const auto forward = module.find_method("forward");
  if (!forward) refuse(spec, "the loss has no forward method");
  const auto& arguments = forward->function().getSchema().arguments();
  size_t required = 0;
  for (size_t i = 1; i < arguments.size(); ++i) required += !arguments[i].default_value();
  const size_t given = outputs + 1;
  if (given >= required && given < arguments.size()) return;
  refuse(spec,
         "forward of the loss takes " + std::to_string(required) +
             " arguments, but the model has " + std::to_string(outputs) +
             (outputs == 1 ? " output" : " outputs") + " and a target",
         "a loss is forward(output, target); the outputs of a model that has several come in order "
         "before the target");
}

/// --target; else the target that a trace stores; else one like the first output.
InputSpec targetSpec(const LossRequest& request) {
  const auto given = request.spec.arguments.find("target");
  if (given != request.spec.arguments.end()) return parseTargetSpec(given->second.at(0));
  const std::vector<InputSpec> outputs = outputSpecs(request);
  const auto stored = asUserFile(request.spec, [&](const std::string& path) {
    try {
      return importTorchScript(path, {}).inputs;
    } catch (const Refused&) {
      return std::vector<InputSpec>();  // a script: it stores none
    }
  });
  if (stored.size() == outputs.size() + 1) return stored.back();
  InputSpec target = outputs.at(0);
  if (!at::isFloatingType(target.dtype) || target.sizes.empty()) {
    refuse(request.spec, "the target of this loss is not known",
           "--target gives its dtype and sizes, "
           "e.g. --target i64[N]");
  }
  return target;
}

void checkPure(const LossSpec& spec, const Member& member, const CanonicalGraph& canonical) {
  if (!canonical.updates.empty()) {
    refuse(spec,
           "forward of the loss changes its '" + member.slots[canonical.updates.front()].name + "'",
           "the loss of a fused model keeps no state");
  }
  const std::function<void(at::ArrayRef<const torch::jit::Block*>)> visit =
      [&](const auto& blocks) {
        for (const torch::jit::Block* block : blocks) {
          for (const Node* node : block->nodes()) {
            if (drawsFromCounters(node)) {
              Message message = unsupported(
                  std::string("the loss draws random numbers: ") + node->kind().toQualString(),
                  placeOf(node, pathOf(spec)));
              throw Refused(message);
            }
            visit(node->blocks());
          }
        }
      };
  visit({canonical.graph->block()});
}

void checkScalar(const LossSpec& spec, const Member& member) {
  const auto type = member.train.graph->outputs()[0]->type()->cast<c10::TensorType>();
  const bool one = member.output.kind == OutputTree::Kind::Tensor && member.train.n_outputs == 1;
  if (one && type && type->dim() == 0 && type->scalarType() &&
      at::isFloatingType(*type->scalarType())) {
    return;
  }
  std::string what = "several tensors";
  if (one && type && type->dim()) what = "a tensor of rank " + std::to_string(*type->dim());
  if (one && type && type->dim() == 0) what = "a number that is not floating";
  refuse(spec, "the loss returns " + what + ", but a loss is one floating number",
         "reduce it in forward, e.g. with .mean()");
}

Member imported(const LossRequest& request, const InputSpec& target) {
  const LossSpec& spec = request.spec;
  ImportOptions options;
  options.inputs = outputSpecs(request);
  options.inputs.push_back(target);
  options.name = "loss";
  return asUserFile(spec, [&](const std::string& path) {
    scanArchive(path);
    checkArguments(spec, torch::jit::load(path), request.output_ranks.size());
    Member member = importTorchScript(path, options);
    if (member.fixed_batch) {
      refuse(spec,
             "the loss works for batches of " + std::to_string(*member.fixed_batch) + " rows only",
             "write x.size(0) or -1 in place of the number, or script the loss",
             member.fixed_batch_place);
    }
    checkScalar(spec, member);
    checkPure(spec, member, member.train);
    checkPure(spec, member, member.eval);
    return member;
  });
}

/// Importing takes a while, and a loss is built for every part of a run.
Member importedOnce(const LossRequest& request, const InputSpec& target) {
  static std::mutex lock;
  static std::map<std::string, Member> known;
  std::string key = std::to_string(hashTensor(request.spec.tensors.at("file"))) + target.toString();
  for (const InputSpec& output : outputSpecs(request)) key += output.toString();
  const std::scoped_lock guard(lock);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  if (known.size() > 16) known.clear();
  return known.emplace(key, imported(request, target)).first->second;
}

std::string number(int64_t value) { return std::to_string(value); }

/// Where N is found: "outputs[I].size(D)" of the stacked outputs; "" where no output has it.
std::string batchExpression(const LossRequest& request) {
  for (size_t i = 0; i < request.output_sizes.size(); ++i) {
    for (size_t d = 0; d < request.output_sizes[i].size(); ++d) {
      if (request.output_sizes[i][d]) continue;
      return "outputs[" + number(static_cast<int64_t>(i)) + "].size(" +
             number(static_cast<int64_t>(d) + 1) + ")";
    }
  }
  return "";
}

/// Lines that check `target` and bring it to `t` [K,...].
std::string targetText(const LossRequest& request, const InputSpec& target) {
  const bool floating = at::isFloatingType(target.dtype);
  const std::string dtype = number(static_cast<int64_t>(target.dtype));
  std::string text = fill(
      R"py(    o = outputs[0]
    assert target.dim() == $rank or target.dim() == $above, "the loss: the target has rank {}, which is neither $rank (shared) nor $above (stacked)".format(target.dim())
    assert $isnot target.is_floating_point(), "the loss: the target must be $spec"
    t = target
)py",
      {{"rank", std::to_string(target.rank())},
       {"above", std::to_string(target.rank() + 1)},
       {"isnot", floating ? "" : "not"},
       {"spec", target.toString()}});
  // A model that was moved to another dtype takes the target as it is, like the loss itself.
  text += floating
              ? "    if o.dtype == " + number(static_cast<int64_t>(request.output_dtypes.at(0))) +
                    ":\n        t = t.to(" + dtype + ")\n"
              : "    t = t.to(" + dtype + ")\n";
  text += "    if t.dim() == " + std::to_string(target.rank()) +
          ":\n        t = t.unsqueeze(0).expand([o.size(0)] + t.size())\n";
  if (fault("loss_target_of_member_zero")) text += "    t = t[:1].expand_as(t)\n";
  std::string fits = "t.size(0) == o.size(0)";
  const std::string batch = batchExpression(request);
  for (size_t d = 0; d < target.rank(); ++d) {
    const std::string wanted = target.sizes[d] ? number(*target.sizes[d]) : batch;
    if (!wanted.empty()) {
      fits += " and t.size(" + number(static_cast<int64_t>(d) + 1) + ") == " + wanted;
    }
  }
  return text + "    assert " + fits + ", \"the loss: the target is {}, but it must be " +
         target.toString() + "\".format(target.size())\n";
}

LossCode build(const LossRequest& request) {
  bytesOf(request.spec);
  const InputSpec target = targetSpec(request);
  const Member member = importedOnce(request, target);
  LossCode code;
  code.shared_constants["loss_file"] = request.spec.tensors.at("file");
  for (size_t i = 0; i < member.slots.size(); ++i) {
    const std::string name = "loss_constant_" + std::to_string(i);
    code.graph_tensors.push_back(name);
    code.shared_constants[name] = member.slots[i].value.detach().clone();
  }
  code.graphs["chorus_scripted_train"] = member.train.graph;
  code.graphs["chorus_scripted_eval"] = member.eval.graph;
  std::string outputs;
  for (size_t i = 0; i < request.output_ranks.size(); ++i) {
    outputs += "outputs[" + std::to_string(i) + "], ";
  }
  code.body = targetText(request, target) +
              "    if self.training:\n        values = self.chorus_scripted_train(" + outputs +
              "t)\n    else:\n        values = self.chorus_scripted_eval(" + outputs +
              "t)\n    return values[0]\n";
  return code;
}

TargetRule ruleOf(const LossRequest& request) {
  const InputSpec spec = targetSpec(request);
  TargetRule rule;
  rule.exact = TargetShape{spec.dtype, spec.sizes, spec.bound};
  rule.dense_rank = spec.rank();
  // Metrics of class numbers fit a target that looks like them.
  rule.class_indices =
      at::isIntegralType(spec.dtype, false) && spec.rank() + 1 == request.output_ranks.at(0);
  rule.index_rank = rule.class_indices ? spec.rank() : 0;
  return rule;
}

}  // namespace

InputSpec parseTargetSpec(const std::string& text) {
  try {
    return parseInputSpec(text);
  } catch (const Refused& refused) {
    std::vector<Message> messages = refused.messages();
    for (Message& message : messages) {
      if (message.text.rfind("--input", 0) == 0) message.text.replace(0, 7, "--target");
    }
    throw Refused(messages);
  }
}

bool isLossFile(const std::string& text) {
  for (const char* ending : {".pt", ".pth", ".ts", ".torchscript"}) {
    if (text.ends_with(ending)) return true;
  }
  if (text.find('/') != std::string::npos) return true;
  for (const LossDefinition& definition : allLosses()) {
    if (definition.name == text) return false;
  }
  std::error_code failed;
  return std::filesystem::is_regular_file(text, failed);
}

LossSpec scriptedSpec(const std::string& path, const std::string& target) {
  scanArchive(path);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file || bytes.empty()) throw Refused(error("cannot read the file", Place{path, "", "", ""}));
  if (bytes.size() > static_cast<size_t>(kLargest)) {
    throw Refused(error("a loss of over 64 MiB is refused", Place{path, "", "", ""}));
  }
  LossSpec spec;
  spec.name = kScripted;
  spec.arguments["path"] = {path};
  if (!target.empty()) {
    parseTargetSpec(target);
    spec.arguments["target"] = {target};
  }
  at::Tensor tensor = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::copy(bytes.begin(), bytes.end(), tensor.data_ptr<uint8_t>());
  spec.tensors["file"] = tensor;
  return spec;
}

bool isOfScripted(const std::string& name) {
  return name == "file" || name == "path" || name == "target";
}

size_t scriptedOutputs(const LossSpec& spec) {
  return asUserFile(spec, [](const std::string& path) -> size_t {
    scanArchive(path);
    const auto forward = torch::jit::load(path).find_method("forward");
    size_t required = 0;  // with self
    if (forward) {
      for (const auto& argument : forward->function().getSchema().arguments())
        required += !argument.default_value();
    }
    return std::max<size_t>(required, 3) - 2;
  });
}

const LossDefinition& scripted() {
  static const LossDefinition definition = [] {
    LossDefinition d;
    d.name = kScripted;
    d.summary = "a TorchScript file whose forward(output, target) returns a scalar";
    d.by_rows = false;
    d.target = ruleOf;
    d.build = build;
    return d;
  }();
  return definition;
}

std::optional<torch::jit::Module> scriptedModule(const LossSpec& spec) {
  if (spec.name != kScripted) return std::nullopt;
  return asUserFile(spec, [](const std::string& path) {
    scanArchive(path);
    torch::jit::Module module = torch::jit::load(path);
    module.train();
    return module;
  });
}

}  // namespace chorus::losses
