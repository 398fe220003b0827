#include <cstring>
#include <fstream>
#include <string_view>

#include "lib/scan/refuse.h"
#include "lib/scan/zip_archive.h"

namespace chorus::scan {
namespace {

constexpr size_t kEndSize = 22, kEnd64Size = 56, kLocatorSize = 20, kEntrySize = 46,
                 kLocalSize = 30;
constexpr uint32_t kEndMagic = 0x06054b50, kEnd64Magic = 0x06064b50, kLocatorMagic = 0x07064b50;
constexpr uint32_t kEntryMagic = 0x02014b50, kLocalMagic = 0x04034b50;
constexpr uint16_t kZip64Field = 1, kUnicodePath = 0x7075, kUnicodeComment = 0x6375;
constexpr uint16_t kEncrypted = 1 | 1 << 6 | 1 << 13;
// Deflate packs at most 1:1032; text and code stay below 1:100.
constexpr uint64_t kRatioFrom = 4 << 20;

template <class T>
T load(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

class Reader {
 public:
  explicit Reader(const std::string& path)
      : path_(path), file_(path, std::ios::binary | std::ios::ate) {
    if (!file_) throw refused(path, "the file cannot be read");
    size_ = static_cast<uint64_t>(file_.tellg());
  }
  uint64_t size() const { return size_; }
  std::string bytes(uint64_t at, uint64_t count) {
    if (at > size_ || count > size_ - at) throw damaged("it points behind the end of the file");
    std::string result(count, '\0');
    file_.seekg(static_cast<std::streamoff>(at));
    if (!file_.read(result.data(), static_cast<std::streamsize>(count)))
      throw damaged("it cannot be read");
    return result;
  }
  Refused damaged(const std::string& why) const {
    return refused(path_, "the archive's directory is damaged: " + why);
  }

 private:
  const std::string& path_;
  std::ifstream file_;
  uint64_t size_ = 0;
};

struct Directory {
  uint64_t entries = 0, size = 0, offset = 0;
};

// The 32-bit field says the same as the 64-bit one, or that one has to look there.
bool agrees(uint64_t narrow, uint64_t escape, uint64_t wide) {
  return narrow == escape || narrow == wide;
}

Directory findDirectory(Reader& file, const std::string& path) {
  if (file.size() < kEndSize) throw refused(path, "the archive is truncated");
  const uint64_t end_at = file.size() - kEndSize;
  const std::string end = file.bytes(end_at, kEndSize);
  if (load<uint32_t>(end, 0) != kEndMagic) {
    throw refused(path,
                  "the archive is truncated: its directory, the last part of the file, is missing");
  }
  Directory found{load<uint16_t>(end, 10), load<uint32_t>(end, 12), load<uint32_t>(end, 16)};
  uint64_t directory_end = end_at;
  if (end_at >= kLocatorSize + kEnd64Size) {
    const std::string locator = file.bytes(end_at - kLocatorSize, kLocatorSize);
    if (load<uint32_t>(locator, 0) == kLocatorMagic) {
      const uint64_t at = end_at - kLocatorSize - kEnd64Size;
      const std::string end64 = file.bytes(at, kEnd64Size);
      const Directory wide{load<uint64_t>(end64, 32), load<uint64_t>(end64, 40),
                           load<uint64_t>(end64, 48)};
      if (load<uint64_t>(locator, 8) != at || load<uint32_t>(end64, 0) != kEnd64Magic ||
          !agrees(found.entries, 0xffff, wide.entries) ||
          !agrees(found.size, 0xffffffff, wide.size) ||
          !agrees(found.offset, 0xffffffff, wide.offset)) {
        throw file.damaged("its two end records contradict each other");
      }
      found = wide;
      directory_end = at;
    }
  }
  if (load<uint16_t>(end, 8) != load<uint16_t>(end, 10) || found.offset > directory_end ||
      found.size != directory_end - found.offset || found.entries > found.size / kEntrySize) {
    throw file.damaged("its size does not fit the file");
  }
  return found;
}

// Sizes and offset of 0xffffffff are in the zip64 field, in this order.
void readExtra(std::string_view extra, Record& record, const Reader& file) {
  while (extra.size() >= 4) {
    const auto id = load<uint16_t>(extra, 0);
    const size_t length = load<uint16_t>(extra, 2);
    if (length > extra.size() - 4) throw file.damaged("an extra field is cut");
    const std::string_view field = extra.substr(4, length);
    extra.remove_prefix(4 + length);
    if (id == kUnicodePath || id == kUnicodeComment)
      throw file.damaged("a record has a second name");
    if (id != kZip64Field) continue;
    size_t at = 0;
    for (uint64_t* value : {&record.size, &record.packed, &record.offset}) {
      if (*value != 0xffffffff) continue;
      if (at + 8 > field.size()) throw file.damaged("a zip64 field is cut");
      *value = load<uint64_t>(field, at);
      at += 8;
    }
  }
}

std::string inQuotes(const std::string& name) {
  std::string text = "'";
  for (const char c : name.substr(0, 200)) text += c >= 0 && c < 32 ? '?' : c;
  return text + "'";
}

void checkName(const std::string& path, const std::string& name) {
  bool bad = name.empty() || name.size() > 4096;
  for (const char c : name) bad |= (c >= 0 && c < 32) || c == '\\' || c == 127;
  for (size_t start = 0; start <= name.size() && !bad;) {
    const size_t end = std::min(name.find('/', start), name.size());
    const std::string_view part = std::string_view(name).substr(start, end - start);
    const bool trailing = part.empty() && end == name.size() && start > 0;
    bad = part == ".." || part == "." || (part.empty() && !trailing);
    start = end + 1;
  }
  if (bad) throw refused(path, "the archive holds a record with the unsafe name " + inQuotes(name));
}

// The local header repeats the name; LibTorch finds the data behind it.  Returns the end of the
// data.
uint64_t checkLocalHeader(Reader& file, const Record& record) {
  const std::string local = file.bytes(record.offset, kLocalSize + record.name.size());
  const bool same =
      load<uint32_t>(local, 0) == kLocalMagic && load<uint16_t>(local, 8) == record.method &&
      load<uint16_t>(local, 26) == record.name.size() && local.substr(kLocalSize) == record.name;
  if (!same)
    throw file.damaged("the header of record " + inQuotes(record.name) + " differs from its entry");
  return record.offset + kLocalSize + record.name.size() + load<uint16_t>(local, 28) +
         record.packed;
}

void checkLayout(Reader& file, const std::vector<Record>& records, uint64_t directory_at) {
  std::vector<const Record*> by_offset;
  for (const Record& record : records) by_offset.push_back(&record);
  std::sort(by_offset.begin(), by_offset.end(),
            [](const Record* a, const Record* b) { return a->offset < b->offset; });
  uint64_t end = 0;
  for (const Record* record : by_offset) {
    if (record->offset < end)
      throw file.damaged("record " + inQuotes(record->name) + " overlaps another");
    end = checkLocalHeader(file, *record);
    if (end > directory_at) throw file.damaged("record " + inQuotes(record->name) + " is cut");
  }
}

void checkSizes(const std::string& path, const Record& record, uint64_t& total,
                const ScanLimits& limits) {
  if (record.size > limits.max_unpacked_bytes || total > limits.max_unpacked_bytes - record.size) {
    throw refused(path, "the archive unpacks to more than " +
                            std::to_string(limits.max_unpacked_bytes) + " bytes");
  }
  total += record.size;
  if (record.size > kRatioFrom && record.size / limits.max_ratio > record.packed) {
    throw refused(path, "record " + inQuotes(record.name) +
                            " is a compression bomb: " + std::to_string(record.packed) +
                            " bytes unpack to " + std::to_string(record.size));
  }
}

}  // namespace

std::vector<Record> readDirectory(const std::string& path, const ScanLimits& limits) {
  Reader file(path);
  const Directory directory = findDirectory(file, path);
  if (directory.entries > limits.max_records) {
    throw refused(path, "the archive has " + std::to_string(directory.entries) +
                            " records, more than the limit of " +
                            std::to_string(limits.max_records));
  }
  const std::string bytes = file.bytes(directory.offset, directory.size);
  std::string_view rest = bytes;
  std::vector<Record> records;
  uint64_t total = 0;
  while (records.size() < directory.entries) {
    if (rest.size() < kEntrySize || load<uint32_t>(rest, 0) != kEntryMagic)
      throw file.damaged("an entry is cut");
    const size_t name = load<uint16_t>(rest, 28), extra = load<uint16_t>(rest, 30),
                 comment = load<uint16_t>(rest, 32);
    if (kEntrySize + name + extra + comment > rest.size()) throw file.damaged("an entry is cut");
    Record record{std::string(rest.substr(kEntrySize, name)),
                  load<uint32_t>(rest, 24),
                  load<uint32_t>(rest, 20),
                  load<uint32_t>(rest, 16),
                  load<uint16_t>(rest, 10),
                  load<uint32_t>(rest, 42),
                  records.size()};
    checkName(path, record.name);
    readExtra(rest.substr(kEntrySize + name, extra), record, file);
    if (load<uint16_t>(rest, 8) & kEncrypted) throw refused(path, "the archive is encrypted");
    const bool stored = record.method == 0 && record.size == record.packed;
    if (!stored && record.method != 8)
      throw file.damaged("record " + inQuotes(record.name) + " is packed in an unknown way");
    checkSizes(path, record, total, limits);
    rest.remove_prefix(kEntrySize + name + extra + comment);
    records.push_back(std::move(record));
  }
  if (!rest.empty()) throw file.damaged("it has more entries than it says");
  checkLayout(file, records, directory.offset);
  return records;
}

}  // namespace chorus::scan
