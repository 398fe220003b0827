#include <caffe2/serialize/versions.h>

#include <bit>
#include <filesystem>

#include "chorus/scan.h"
#include "lib/scan/code_scan.h"
#include "lib/scan/not_an_archive.h"
#include "lib/scan/pickle_scan.h"
#include "lib/scan/refuse.h"
#include "lib/scan/zip_archive.h"

namespace chorus {
namespace {

using namespace scan;

// The records of a TorchScript archive, by what LibTorch does with them. Names are without the top
// folder.
struct Contents {
  std::map<std::string, const Record*>
      by_name;  ///< in lower case: LibTorch finds records whatever their case
  std::vector<std::pair<std::string, const Record*>> code, positions, pickles;
};

std::string lowerCase(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

void sortRecord(Contents& contents, const std::string& path, const std::string& name,
                const Record& record) {
  const std::string lower = lowerCase(name);
  if (!contents.by_name.emplace(lower, &record).second) {
    throw refused(path, "the archive holds the record '" + name + "' twice");
  }
  if (lower == "model.json")
    throw refused(path, "the archive has the format of PyTorch 1.0; export it again");
  const bool in_code = lower.starts_with("code/");
  if (in_code && lower.ends_with(".py")) {
    contents.code.emplace_back(name, &record);
  } else if (in_code && lower.ends_with(".debug_pkl")) {
    contents.positions.emplace_back(name, &record);
  } else if (in_code && !lower.ends_with("/")) {
    throw refused(path, "the archive holds '" + name + "' among its code");
  } else if (lower.ends_with(".pkl") && name.find('/') == std::string::npos) {
    contents.pickles.emplace_back(name, &record);
  }
}

Contents sortRecords(const std::string& path, const std::vector<Record>& records) {
  Contents contents;
  const std::string top = records.front().name.substr(0, records.front().name.find('/') + 1);
  for (const Record& record : records) {
    if (top.empty() || !record.name.starts_with(top)) {
      throw refused(path,
                    "the archive holds '" + record.name + "' outside its folder '" + top + "'");
    }
    if (record.name != top) sortRecord(contents, path, record.name.substr(top.size()), record);
  }
  return contents;
}

std::string readOptional(const ZipArchive& archive, const Contents& contents,
                         const std::string& name) {
  const auto found = contents.by_name.find(name);
  return found == contents.by_name.end() ? "" : archive.read(*found->second);
}

void checkFormat(const std::string& path, const ZipArchive& archive, const Contents& contents) {
  std::string order = readOptional(archive, contents, "byteorder");
  const std::string own = std::endian::native == std::endian::little ? "little" : "big";
  if (!order.empty() && order != own) {
    throw refused(path, "the archive was written on a machine of other byte order ('" +
                            order.substr(0, 20) + "'); this one reads '" + own + "'");
  }
  std::string version = readOptional(archive, contents, ".data/version");
  if (version.empty()) version = readOptional(archive, contents, "version");
  while (!version.empty() && version.back() == '\n') version.pop_back();
  const bool number = !version.empty() && version.size() < 10 &&
                      version.find_first_not_of("0123456789") == std::string::npos;
  if (!number) throw refused(path, "the archive does not say its format version");
  const auto value = std::stoul(version);
  if (value > caffe2::serialize::kMaxSupportedFileFormatVersion) {
    throw refused(path, "the archive has format version " + version +
                            ", newer than this LibTorch reads (up to " +
                            std::to_string(caffe2::serialize::kMaxSupportedFileFormatVersion) +
                            ")");
  }
}

Program checkAllCode(const std::string& path, const ZipArchive& archive, const Contents& contents,
                     const ScanLimits& limits) {
  std::vector<CodeFile> files;
  size_t bytes = 0;
  for (const auto& [name, record] : contents.code) {
    const std::string text = archive.read(*record);
    bytes += text.size();
    if (bytes > limits.max_code_bytes) {
      throw refused(path, "the archive holds more than " + std::to_string(limits.max_code_bytes) +
                              " bytes of code");
    }
    files.push_back(parseCode(path, name, text, limits));
  }
  Program program = collectProgram(path, files);
  for (const CodeFile& file : files) checkCode(path, file, program);
  return program;
}

void checkPickles(const std::string& path, const ZipArchive& archive, const Contents& contents,
                  const Program& program, const ScanLimits& limits) {
  PickleContext context{path, "", limits, {}, {}, {}};
  context.is_class = [&](const std::string& name) { return program.find(name) != nullptr; };
  context.check_type = [&](const std::string& type) { checkTypeText(path, type, program); };
  for (const auto& [name, record] : contents.pickles) {
    const std::string folder = lowerCase(name.substr(0, name.size() - 4)) + "/";
    context.record = name;
    context.values_dropped = folder == "traced_inputs/";
    context.storage_bytes = [&](const std::string& key) -> std::optional<uint64_t> {
      const auto found = contents.by_name.find(folder + lowerCase(key));
      if (found == contents.by_name.end()) return std::nullopt;
      return found->second->size;
    };
    scanPickle(archive.read(*record), context);
  }
  context.debug = true;
  for (const auto& [name, record] : contents.positions) {
    context.record = name;
    scanPickle(archive.read(*record), context);
  }
}

void scanFile(const std::string& path, const ScanLimits& limits) {
  refuseOtherFiles(path);
  const ZipArchive archive(path, limits);
  refuseOtherArchives(path, archive);
  const Contents contents = sortRecords(path, archive.records());
  checkFormat(path, archive, contents);
  const Program program = checkAllCode(path, archive, contents, limits);
  checkPickles(path, archive, contents, program, limits);
}

}  // namespace

void scanArchive(const std::string& path, const ScanLimits& limits) {
  try {
    scanFile(path, limits);
  } catch (const Refused&) {
    throw;
  } catch (const std::exception& problem) {
    const std::string text = problem.what();
    throw refused(path, "the archive cannot be read: " + text.substr(0, text.find('\n')));
  }
}

}  // namespace chorus
