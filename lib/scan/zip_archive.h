// A zip file as two readers see it: libzip, which unpacks here, and LibTorch's own, which will load
// the file later. Everything on which they could disagree (comments, second directories, name
// encodings, headers that differ from the directory, overlapping or repeated records) is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chorus/scan.h"

struct zip;
struct zip_file;

namespace chorus::scan {

struct Record {
  std::string name;     ///< raw bytes, as stored
  uint64_t size = 0;    ///< unpacked, bytes
  uint64_t packed = 0;  ///< bytes in the file
  uint32_t crc = 0;
  uint16_t method = 0;  ///< 0 stored, 8 deflated
  uint64_t offset = 0;  ///< of the local header
  uint64_t index = 0;   ///< in the directory
};

/// The central directory of the file, checked for being well-formed on its own; throws Refused
/// naming `path`. Limits: number of records, sum of unpacked sizes, compression ratio.
std::vector<Record> readDirectory(const std::string& path, const ScanLimits& limits);

/// One record, unpacked from its beginning. Throws Refused where it is damaged.
class RecordStream {
 public:
  RecordStream(zip* archive, std::string path, const Record& record);
  /// Exactly `count` bytes.
  void read(void* into, uint64_t count);
  /// Verifies that all has been read, and the checksum.
  void finish();

 private:
  struct Close {
    void operator()(zip_file* file) const;
  };
  [[noreturn]] void damaged() const;
  std::string path_, name_;
  std::unique_ptr<zip_file, Close> file_;
};

class ZipArchive {
 public:
  /// Throws Refused where libzip's view differs from `readDirectory`'s.
  ZipArchive(const std::string& path, const ScanLimits& limits);

  const std::vector<Record>& records() const { return records_; }
  /// Unpacks one record; its checksum is verified. At most `max_code_bytes`.
  std::string read(const Record& record) const;
  /// Unpacks a record of any size piece by piece.
  RecordStream open(const Record& record) const { return {zip_.get(), path_, record}; }

 private:
  struct Close {
    void operator()(zip* archive) const;
  };
  std::string path_;
  ScanLimits limits_;
  std::vector<Record> records_;
  std::unique_ptr<zip, Close> zip_;
};

}  // namespace chorus::scan
