#include "tools/chorus-run/manifest_run.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

#include "chorus/optimizer.h"
#include "lib/support/atomic_file.h"
#include "lib/support/fault.h"
#include "lib/support/hash.h"
#include "tools/chorus-run/checkpoints.h"
#include "tools/common/manifest.h"
#include "tools/common/members.h"
#include "tools/common/report.h"
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
                                   {"ema", &options.ema},
                                   {"swa", &options.swa},
                                   {"optimizer-state", &options.optimizer_state}}) {
    *text = chosenText(name, *text, ',', k, numbers);
  }
  options.schedule = chosenText("lr-schedule", options.schedule, ';', k, numbers);
  for (std::string& text : options.training.loss_arguments) {
    const size_t at = text.find('=');
    if (at == std::string::npos || text.ends_with(".npy")) continue;
    text = text.substr(0, at + 1) +
           chosenText("loss-arg " + text.substr(0, at), text.substr(at + 1), ',', k, numbers);
  }
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

/// That a group of an interrupted run had ended, and what it wrote: a file beside its checkpoint.
class EndRecord {
 public:
  explicit EndRecord(const RunOptions& own)
      : folder_(checkpointFolder(own)),
        output_(own.output),
        options_(decisiveOptions(own).dump() + own.epochs) {
    inputs_ = own.models;
    for (const std::string& text : {own.data, own.validation, own.subset, own.sample_weight,
                                    own.training.hparams, own.training.parameter_groups}) {
      const std::vector<std::string> files = splitText(text, ',');
      inputs_.insert(inputs_.end(), files.begin(), files.end());
    }
  }

  bool holds() const {
    std::ifstream in(folder_ / "ended");
    std::string text, inputs;
    if (!std::getline(in, text) || text.empty() || text != contentHash()) return false;
    if (std::getline(in, inputs) && inputs != inputsHash()) {
      throw Refused(error("the model or the data are not what they were when this group ended",
                          Place{folder_.string()})
                        .note("a run goes on with the model and the data that it began with"));
    }
    return true;
  }
  void write() const {
    fs::create_directories(folder_);
    writeAtomically((folder_ / "ended").string(), [&](std::ostream& out) {
      out << contentHash() << "\n" << inputsHash() << "\n";
    });
  }
  std::vector<fs::path> paths() const { return {folder_ / "ended", folder_}; }
  void remove() const {
    std::error_code ignored;  // a folder that is not empty stays
    fs::remove(folder_ / "ended", ignored);
    fs::remove(folder_, ignored);
  }

 private:
  static std::string bytesOf(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  std::string inputsHash() const {
    uint64_t hash = 0;
    for (const std::string& path : inputs_) {
      // A key of the data, and a folder, have no bytes.
      hash = mixHash(hash, fs::is_regular_file(path) ? hashText(bytesOf(path)) : 0);
    }
    return std::to_string(hash);
  }
  std::string contentHash() const {
    const std::string bytes = bytesOf(output_);
    return bytes.empty() ? "" : std::to_string(hashText(bytes + options_));
  }
  fs::path folder_;
  std::string output_, options_;
  std::vector<std::string> inputs_;
};

/// A run of one manifest.
class ManifestRun {
 public:
  ManifestRun(const RunOptions& options, const std::function<int(RunOptions&)>& run)
      : options_(options), run_(run), manifest_(readManifest(options.model())) {
    if (!options.resume.empty()) requireResumable();
  }

  int all() {
    Manifest written;
    written.members = manifest_.members;
    for (size_t g = 0; g < manifest_.groups.size(); ++g) {
      RunOptions own = ofGroup(g);
      for (const std::string& path : {own.output, own.predict}) {
        if (!path.empty()) refuseOverwriting(path, own.models);
      }
      if (const int code = group(own); code != 0) {
        files_.keep();  // it was interrupted: what is trained is worth keeping
        return code;
      }
      written.groups.push_back(
          {fs::path(own.output).filename().string(), manifest_.groups[g].members});
    }
    if (!options_.output.empty()) writeList(written);
    files_.keep();
    for (const EndRecord& record : records_) record.remove();
    return 0;
  }

 private:
  RunOptions ofGroup(size_t g) const {
    const Manifest::Group& group = manifest_.groups[g];
    RunOptions own = options_;
    own.models = {groupFile(options_.model(), group)};
    own.output = groupPath(options_.output, g);
    own.predict = groupPath(options_.predict, g);
    own.log = groupPath(options_.log, g);
    own.checkpoint = groupPath(options_.checkpoint, g);
    own.resume = groupPath(options_.resume, g);
    own.resume_name = !options_.checkpoint.empty() ? options_.checkpoint : standardFolder(options_);
    own.chosen = ChosenMembers{manifest_.members, groupNumbers(manifest_, group)};
    if (fault("members_by_place")) {
      std::iota(own.chosen->numbers.begin(), own.chosen->numbers.end(), size_t{0});
    }
    chooseValues(own, manifest_.members.size(), own.chosen->numbers);
    return own;
  }

  int group(RunOptions& own) {
    const EndRecord record(own);
    if (!options_.resume.empty() && record.holds()) {
      records_.push_back(record);
      say(remark("this group had ended before the interruption", Place{own.output}));
      return 0;
    }
    // A group that had not begun begins, with its checkpoints where those of a resumed one are.
    if (!own.resume.empty() && !fs::exists(fs::path(own.resume) / "checkpoint.pt")) {
      own.checkpoint = std::exchange(own.resume, "");
    }
    files_.add(own.output);
    files_.add(own.predict);
    if (const int code = run_(own); code != 0) return code;
    if (!options_.trains() || own.output.empty()) return 0;
    for (const fs::path& path : record.paths()) files_.add(path);
    record.write();
    records_.push_back(record);
    return 0;
  }

  /// The folders are named after the manifest's: one of them at least has to be there.
  void requireResumable() const {
    for (size_t g = 0; g < manifest_.groups.size(); ++g) {
      if (fs::exists(groupPath(options_.resume, g))) return;
    }
    throw Refused(error("there is no such folder to resume from: those of the groups are '" +
                            groupPath(options_.resume, 0) + "', ...",
                        Place{options_.resume}));
  }

  void writeList(const Manifest& written) const {
    const fs::path output(options_.output);
    const std::string path = (output.parent_path() / output.stem()).string() + ".json";
    refuseOverwriting(path, {options_.model()});
    writeAtomically(path, [&](std::ostream& out) { out << manifestText(written); });
  }

  const RunOptions& options_;
  const std::function<int(RunOptions&)>& run_;
  Manifest manifest_;
  WrittenFiles files_;
  std::vector<EndRecord> records_;
};

}  // namespace

int runManifest(const RunOptions& options, const std::function<int(RunOptions&)>& run) {
  return ManifestRun(options, run).all();
}

}  // namespace chorus
