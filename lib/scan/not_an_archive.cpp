#include "lib/scan/not_an_archive.h"

#include <filesystem>
#include <fstream>

#include "lib/scan/pickle_scan.h"
#include "lib/scan/refuse.h"

namespace chorus::scan {
namespace {

namespace fs = std::filesystem;

Refused withHelp(const std::string& path, const std::string& text) {
  Message message = error(text, Place{path, "", "", ""});
  return Refused(message.helpWith(exportHelp()));
}

Refused pickled(const std::string& path, bool objects) {
  return withHelp(
      path,
      objects ? "the file is a pickled nn.Module: it names Python code instead of holding the graph"
              : "the file is a state dict or other pickle: it holds weights, but no graph");
}

bool isText(const std::string& bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](unsigned char c) { return c >= 32 || (c >= 9 && c <= 13); });
}

}  // namespace

std::string headOfFile(const std::string& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (status.type() == fs::file_type::not_found) throw refused(path, "there is no such file");
  if (status.type() == fs::file_type::directory)
    throw refused(path, "this is a folder, not a file");
  if (status.type() != fs::file_type::regular) throw refused(path, "this is not a regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw refused(path, "the file cannot be read");
  std::string bytes(size_t{1} << 16, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));
  if (bytes.empty()) throw refused(path, "the file is empty");
  return bytes;
}

void refuseOtherFiles(const std::string& path) {
  const std::string bytes = headOfFile(path);
  if (bytes.starts_with("PK\x03\x04") || bytes.starts_with("PK\x05\x06")) return;
  if (bytes.starts_with("\x93NUMPY"))
    throw refused(path,
                  "the file is a NumPy array (.npy), not a model; data go to --data of chorus-run");
  if (bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 1 && bytes[1] <= 5)
    throw pickled(path, pickleHoldsObjects(bytes));
  if (isText(bytes)) {
    Message message = error("the file is text, not a TorchScript file", Place{path, "", "", ""});
    throw Refused(message.helpWith("a list of members is given as @" + path));
  }
  throw withHelp(path, "the file is not a TorchScript file: it is no zip archive");
}

void refuseOtherArchives(const std::string& path, const ZipArchive& archive) {
  const Record* data = nullptr;
  bool arrays = false, exported = false, mobile = false;
  for (const Record& record : archive.records()) {
    const std::string name = record.name.substr(record.name.find('/') + 1);
    if (name.starts_with("code/") && name.ends_with(".py")) return;
    if (name == "data.pkl") data = &record;
    arrays |= record.name.ends_with(".npy");
    exported |= name == "archive_format" || name.starts_with("models/") ||
                name.starts_with("serialized_exported_program");
    mobile |= name == "bytecode.pkl";
  }
  if (arrays)
    throw refused(
        path, "the file is a NumPy archive (.npz), not a model; data go to --data of chorus-run");
  if (exported)
    throw withHelp(path, "the file is a torch.export program, which cannot be read yet");
  if (mobile) throw withHelp(path, "the file is for PyTorch Mobile and holds no TorchScript code");
  if (data) throw pickled(path, pickleHoldsObjects(archive.read(*data)));
  throw withHelp(path, "the file is a zip archive without TorchScript code");
}

}  // namespace chorus::scan
