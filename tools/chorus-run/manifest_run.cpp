#include "tools/chorus-run/manifest_run.h"

#include <filesystem>

#include "lib/support/atomic_file.h"
#include "tools/common/manifest.h"
#include "tools/common/members.h"
#include "tools/common/values.h"

namespace chorus {
namespace {

namespace fs = std::filesystem;

/// "a,b,c" of K values to those of some members; another count stays as it is.
std::string chosenText(const std::string& text, char separator, size_t k,
                       const std::vector<size_t>& numbers) {
  const std::vector<std::string> parts = splitText(text, separator);
  if (text.empty() || parts.size() == 1) return text;
  if (parts.size() != k) return text;
  std::string chosen;
  for (const size_t number : numbers) {
    chosen += (chosen.empty() ? "" : std::string(1, separator)) + parts[number];
  }
  return chosen;
}

std::string groupPath(const std::string& path, size_t group) {
  if (path.empty()) return path;
  const fs::path file(path);
  return (file.parent_path() / file.stem()).string() + "." + std::to_string(group) +
         file.extension().string();
}

/// What is one value or K on the command line.
void chooseValues(RunOptions& options, size_t k, const std::vector<size_t>& numbers) {
  for (std::string* text :
       {&options.epochs, &options.batch_size, &options.member_seeds, &options.clip_norm,
        &options.clip_value, &options.patience, &options.min_delta, &options.ema}) {
    *text = chosenText(*text, ',', k, numbers);
  }
  options.schedule = chosenText(options.schedule, ';', k, numbers);
  for (auto& [name, text] : options.training.values) {
    const bool pairs = text.find(';') != std::string::npos;
    if (pairs || splitText(text, ',').size() == k) {
      text = chosenText(text, pairs ? ';' : ',', k, numbers);
    }
  }
}

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
    }
    if (const int code = run(own); code != 0) return code;
    written.groups.push_back({fs::path(own.output).filename().string(), group.members});
  }
  if (options.output.empty()) return 0;
  const fs::path output(options.output);
  const std::string path = (output.parent_path() / output.stem()).string() + ".json";
  refuseOverwriting(path, {options.model()});
  writeAtomically(path, [&](std::ostream& out) { out << manifestText(written); });
  return 0;
}

}  // namespace chorus
