#include "tools/chorus-run/manifest_run.h"

#include <algorithm>
#include <filesystem>

#include "chorus/optimizer.h"
#include "lib/support/atomic_file.h"
#include "tools/common/manifest.h"
#include "tools/common/members.h"
#include "tools/common/values.h"

namespace chorus {
namespace {

namespace fs = std::filesystem;

/// "a,b,c" of K values to those of some members. Throws Refused for another count than one or K.
std::string chosenText(const std::string& option, const std::string& text, char separator, size_t k,
                       const std::vector<size_t>& numbers) {
  if (text.empty() || splitText(text, separator).size() == 1) return text;
  const std::vector<std::string> parts = oneOrKTexts("--" + option, text, k, separator);
  std::string chosen;
  for (const size_t number : numbers) {
    chosen += (chosen.empty() ? "" : std::string(1, separator)) + parts[number];
  }
  return chosen;
}

/// "betas" stands for the hyperparameters beta1 and beta2: its pairs are separated by ';'.
bool isPair(const std::string& option) {
  std::string half = option.substr(0, option.size() - 1) + "1";
  std::replace(half.begin(), half.end(), '-', '_');
  const auto& table = allOptimizers();
  return std::any_of(table.begin(), table.end(), [&](const OptimizerDefinition& optimizer) {
    return std::any_of(optimizer.hyperparameters.begin(), optimizer.hyperparameters.end(),
                       [&](const Hyperparameter& h) { return h.name == half; });
  });
}

std::string groupPath(const std::string& path, size_t group) {
  if (path.empty()) return path;
  const fs::path file(path);
  const std::string ending = file.extension() == ".json" ? ".pt" : file.extension().string();
  return (file.parent_path() / file.stem()).string() + "." + std::to_string(group) + ending;
}

/// What is one value or K on the command line.
void chooseValues(RunOptions& options, size_t k, const std::vector<size_t>& numbers) {
  for (const auto& [name, text] : {std::pair{"epochs", &options.epochs},
                                   {"batch-size", &options.batch_size},
                                   {"member-seed", &options.member_seeds},
                                   {"clip-norm", &options.clip_norm},
                                   {"clip-value", &options.clip_value},
                                   {"patience", &options.patience},
                                   {"min-delta", &options.min_delta},
                                   {"ema", &options.ema}}) {
    *text = chosenText(name, *text, ',', k, numbers);
  }
  options.schedule = chosenText("lr-schedule", options.schedule, ';', k, numbers);
  for (auto& [name, text] : options.training.values) {
    text = chosenText(name, text, isPair(name) ? ';' : ',', k, numbers);
  }
}

/// Files of a run that go unless all of its groups end well; one that was there before stays.
class WrittenFiles {
 public:
  ~WrittenFiles() {
    std::error_code ignored;
    for (const fs::path& path : paths_) fs::remove(path, ignored);
  }
  void add(const fs::path& path) {
    if (!path.empty() && !fs::exists(path)) paths_.push_back(path);
  }
  void keep() { paths_.clear(); }

 private:
  std::vector<fs::path> paths_;
};

void refuseWhatIsPerFile(const RunOptions& options) {
  for (const auto& [given, name] :
       {std::pair{!options.training.hparams.empty(), "--hparams"},
        std::pair{!options.subset.empty(), "--subset"}, std::pair{options.folds > 0, "--folds"},
        std::pair{options.bootstrap, "--bootstrap"},
        std::pair{!options.training.loss_arguments.empty(), "--loss-arg"},
        std::pair{options.inputs != "shared" || !options.targets.empty(), "--inputs stacked"}}) {
    if (!given) continue;
    throw Refused(unsupported(std::string(name) + " with a manifest")
                      .helpWith("run the files that the manifest lists one by one"));
  }
}

}  // namespace

int runManifest(const RunOptions& options, const std::function<int(RunOptions&)>& run) {
  const Manifest manifest = readManifest(options.model());
  refuseWhatIsPerFile(options);
  Manifest written;
  written.members = manifest.members;
  WrittenFiles files;
  for (size_t g = 0; g < manifest.groups.size(); ++g) {
    const Manifest::Group& group = manifest.groups[g];
    RunOptions own = options;
    own.models = {groupFile(options.model(), group)};
    own.output = groupPath(options.output, g);
    own.predict = groupPath(options.predict, g);
    own.log = groupPath(options.log, g);
    if (!options.checkpoint.empty()) own.checkpoint = options.checkpoint + "." + std::to_string(g);
    if (!options.resume.empty()) own.resume = options.resume + "." + std::to_string(g);
    chooseValues(own, manifest.members.size(), groupNumbers(manifest, group));
    for (const std::string& path : {own.output, own.predict}) {
      if (!path.empty()) refuseOverwriting(path, own.models);
      files.add(path);
    }
    if (const int code = run(own); code != 0) {
      files.keep();  // it was interrupted: what is trained is worth keeping
      return code;
    }
    written.groups.push_back({fs::path(own.output).filename().string(), group.members});
  }
  if (options.output.empty()) {
    files.keep();
    return 0;
  }
  const fs::path output(options.output);
  const std::string path = (output.parent_path() / output.stem()).string() + ".json";
  refuseOverwriting(path, {options.model()});
  writeAtomically(path, [&](std::ostream& out) { out << manifestText(written); });
  files.keep();
  return 0;
}

}  // namespace chorus
