#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include "chorus/fused_model.h"
#include "lib/export/alone.h"
#include "lib/export/torch_optimizer.h"
#include "lib/support/atomic_file.h"
#include "lib/support/names.h"
#include "tools/common/command_line.h"
#include "tools/common/manifest.h"
#include "tools/common/members.h"
#include "tools/common/run_tool.h"

namespace chorus {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExamples =
    "chorus-split trained.pt -o members/\n"
    "chorus-split trained.pt -o weights/ --state-dict";

struct SplitOptions {
  std::string fused, folder;
  bool force = false, state_dict = false, optimizer_state = false, json = false;
};

std::optional<SplitOptions> parseSplitOptions(const std::vector<std::string>& arguments) {
  SplitOptions options;
  CommandLine line("chorus-split", "Writes each member of a fused file as a file of its own.",
                   kExamples);
  line.app.add_option("FUSED", options.fused, "a fused file, or the manifest of several")
      ->required();
  line.app.add_option("-o,--output", options.folder, "folder for NAME.pt of each member")
      ->required();
  line.app.add_flag("--force", options.force, "replace files that exist");
  line.app.add_flag("--state-dict", options.state_dict,
                    "write state dicts for torch.load, not TorchScript");
  line.app.add_flag("--optimizer-state", options.optimizer_state,
                    "also write NAME.optim.pt, a state dict for torch.optim");
  if (!line.parse(arguments)) return std::nullopt;
  options.json = line.json;
  return options;
}

/// -o names a folder: a file in its place is a slip, most often that of the fused file itself.
void requireFolder(const SplitOptions& options) {
  std::error_code ignored;
  if (!fs::exists(options.folder, ignored) || fs::is_directory(options.folder, ignored)) return;
  const bool same = fs::equivalent(options.folder, options.fused, ignored);
  throw Refused(usage("-o is a folder for one file per member, but '" + options.folder + "' is " +
                      (same ? "the fused file itself" : "a file"))
                    .helpWith("chorus-split " + options.fused + " -o members/"));
}

/// Makes a folder; remembers which folders it made, deepest first, so that a failure can remove
/// them again.
class OutputFolder {
 public:
  explicit OutputFolder(const fs::path& folder) {
    for (fs::path path = folder; !path.empty() && !fs::exists(path); path = path.parent_path()) {
      if (!path.filename().empty()) made_.push_back(path);  // "members/" ends in an empty name
    }
    std::error_code failure;
    fs::create_directories(folder, failure);
    if (failure)
      throw Refused(error("cannot make the folder: " + failure.message(), Place{folder.string()}));
  }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder() {
    std::error_code ignored;  // a folder that is not empty stays
    for (const fs::path& path : made_) fs::remove(path, ignored);
  }
  void keep() { made_.clear(); }

 private:
  std::vector<fs::path> made_;
};

/// "members/a.pt" -> "members/a.optim.pt"
std::string optimizerPath(const std::string& path) {
  return path.substr(0, path.size() - 3) + ".optim.pt";
}

std::vector<std::string> outputPaths(const SplitOptions& options, const FusedModel& model) {
  std::vector<std::string> paths;
  std::set<std::string> names;
  for (const std::string& name : model.member_names) {
    requireSafeName("member name", name, Place{options.fused});
    if (!names.insert(name).second) {
      throw Refused(error("two members are named '" + printable(name) + "'", Place{options.fused}));
    }
    paths.push_back((fs::path(options.folder) / (name + ".pt")).string());
    if (options.optimizer_state) paths.push_back(optimizerPath(paths.back()));
  }
  std::vector<std::string> existing;
  for (const std::string& path : paths) {
    refuseOverwriting(path, {options.fused});
    if (fs::exists(fs::symlink_status(path))) existing.push_back(path);
  }
  if (!existing.empty() && !options.force) {
    const std::string more =
        existing.size() > 1 ? ", and " + std::to_string(existing.size() - 1) + " more" : "";
    throw Refused(
        error("'" + existing.front() + "' exists" + more).helpWith("--force replaces them"));
  }
  return paths;
}

/// Names and tensors of member k, ties under each of their names.
c10::Dict<std::string, at::Tensor> stateDict(const FusedModel& model, size_t k) {
  if (!model.partial.empty()) return stateDict(memberAlone(model, k), 0);
  c10::Dict<std::string, at::Tensor> dict;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorSlot& slot = model.prototype.slots[i];
    if (slot.role == Role::Constant) continue;
    const at::Tensor whole = model.tensors[i].detach();
    // A copy: a slice would be saved with the storage of all members.
    const at::Tensor tensor = (model.stacked[i] ? whole[static_cast<int64_t>(k)] : whole).clone();
    dict.insert(slot.name, tensor);
    for (const std::string& alias : slot.aliases) dict.insert(alias, tensor);
  }
  return dict;
}

/// As torch.save writes a plain dict. torch::jit::pickle_save would add a type tag that torch.load
/// refuses by default.
void writePickle(const c10::IValue& dict, std::ostream& out) {
  std::string pickle;
  torch::jit::Pickler pickler([&](const char* bytes, size_t size) { pickle.append(bytes, size); },
                              /*tensor_table=*/nullptr, /*type_renamer=*/nullptr,
                              /*memoized_class_types=*/nullptr,
                              /*get_tensor_id=*/nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(dict);
  pickler.stop();
  caffe2::serialize::PyTorchStreamWriter archive([&](const void* bytes, size_t size) {
    out.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
    return out ? size : 0;
  });
  archive.writeRecord("data.pkl", pickle.data(), pickle.size());
  for (size_t i = 0; i < pickler.tensorData().size(); ++i) {
    const auto bytes = torch::jit::getWriteableTensorData(pickler.tensorData()[i]);
    archive.writeRecord("data/" + std::to_string(i), bytes.data(), bytes.sizeInBytes());
  }
  archive.writeEndOfFile();
}

void writeMember(const SplitOptions& options, const FusedModel& model, size_t k,
                 const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (options.state_dict) {
    writePickle(stateDict(model, k), out);
  } else {
    const auto record = memberRecord(model, k);
    memberModule(model, k).save(out, torch::jit::ExtraFilesMap(record.begin(), record.end()));
  }
  out.close();
  if (!out) throw Refused(error("cannot write: is the disk full?", Place{path}));
}

void writeOptimizer(const FusedModel& model, size_t k, const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  writePickle(torchOptimizerState(model, k), out);
  out.close();
  if (!out) throw Refused(error("cannot write: is the disk full?", Place{path}));
}

/// One fused file, or those of a manifest.
std::vector<FusedModel> readModels(const std::string& path) {
  std::vector<FusedModel> models;
  if (!isManifest(path)) {
    models.push_back(readFused(path));
    return models;
  }
  for (const Manifest::Group& group : readManifest(path).groups) {
    models.push_back(readFused(groupFile(path, group)));
    if (models.back().member_names != group.members) {
      throw Refused(error("'" + group.file + "' has other members than the manifest says",
                          Place{path, "", "", ""}));
    }
  }
  return models;
}

int split(const std::vector<std::string>& arguments) {
  const auto options = parseSplitOptions(arguments);
  if (!options) return 0;
  requireFolder(*options);
  const std::vector<FusedModel> models = readModels(options->fused);
  std::vector<std::vector<std::string>> paths;
  for (const FusedModel& model : models) paths.push_back(outputPaths(*options, model));
  OutputFolder folder(options->folder);
  PendingFiles files;
  const size_t each = options->optimizer_state ? 2 : 1;  // files of a member
  nlohmann::ordered_json members = nlohmann::ordered_json::array();
  for (size_t m = 0; m < models.size(); ++m) {
    for (size_t k = 0; k < models[m].k(); ++k) {
      const std::string& path = paths[m][each * k];
      writeMember(*options, models[m], k, files.stage(path));
      if (options->optimizer_state)
        writeOptimizer(models[m], k, files.stage(paths[m][each * k + 1]));
      members.push_back({{"member", models[m].member_names[k]}, {"file", path}});
    }
  }
  files.commit();
  folder.keep();
  if (options->json) {
    std::cout << nlohmann::ordered_json{{"fused", options->fused}, {"members", members}}.dump(2)
              << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace chorus

int main(int argc, char** argv) {
  return chorus::runTool("chorus-split", argc, argv, chorus::split);
}
