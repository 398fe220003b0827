#include <filesystem>
#include <fstream>

#include "chorus/data.h"
#include "lib/scan/not_an_archive.h"
#include "lib/scan/refuse.h"
#include "lib/scan/zip_archive.h"
#include "runtime/data/formats.h"
#include "runtime/data/npy.h"

namespace chorus {
namespace {

// Data of zeros compress by 1:1000.
constexpr ScanLimits kDataLimits{.max_unpacked_bytes = size_t{1} << 40, .max_ratio = 2000};

std::vector<NamedArray> loadNpy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  NpySource source{
      path, std::filesystem::path(path).stem().string(), std::filesystem::file_size(path), {}};
  source.read = [&](void* into, uint64_t count) {
    if (file.read(static_cast<char*>(into), static_cast<std::streamsize>(count))) return;
    throw scan::refused(path, "the file cannot be read to its end");
  };
  return {{source.name, readNpy(source)}};
}

std::vector<NamedArray> loadNpz(const std::string& path) {
  const scan::ZipArchive archive(path, kDataLimits);
  std::vector<NamedArray> arrays;
  for (const scan::Record& record : archive.records()) {
    if (!record.name.ends_with(".npy")) {
      throw scan::refused(
          path, "the archive holds '" + record.name + "', which is no array; data are .npz, .npy");
    }
    const std::string name = record.name.substr(0, record.name.size() - 4);
    for (const NamedArray& other : arrays) {
      if (other.name == name)
        throw scan::refused(path, "the archive holds the array '" + name + "' twice");
    }
    scan::RecordStream stream = archive.open(record);
    NpySource source{path, name, record.size, {}};
    source.read = [&](void* into, uint64_t count) { stream.read(into, count); };
    arrays.push_back({name, readNpy(source)});
    stream.finish();
  }
  if (arrays.empty()) throw scan::refused(path, "the archive holds no arrays");
  return arrays;
}

}  // namespace

std::vector<NamedArray> loadArrays(const std::string& path) {
  const std::string head = scan::headOfFile(path);
  if (head.starts_with("\x93NUMPY")) return loadNpy(path);
  if (head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06")) return loadNpz(path);
  if (isIdx(head)) return {{std::filesystem::path(path).stem().string(), readIdx(path)}};
  if (isCsv(head)) return readCsv(path);
  throw scan::refused(path,
                      "the file is not a data file that can be read (.npz, .npy, CSV or IDX)");
}

std::map<std::string, at::Tensor> readArrays(const std::string& path) {
  std::map<std::string, at::Tensor> by_name;
  for (NamedArray& array : loadArrays(path))
    by_name.emplace(std::move(array.name), std::move(array.values));
  return by_name;
}

}  // namespace chorus
