#include "lib/scan/zip_archive.h"

#include <zip.h>

#include "lib/scan/refuse.h"

namespace chorus::scan {

void ZipArchive::Close::operator()(zip* archive) const { zip_discard(archive); }

ZipArchive::ZipArchive(const std::string& path, const ScanLimits& limits)
    : path_(path), limits_(limits), records_(readDirectory(path, limits)) {
  int code = 0;
  zip_.reset(zip_open(path.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code));
  if (!zip_)
    throw refused(path, "the archive is damaged: its records and its directory do not agree");
  int comment = 0;
  zip_get_archive_comment(zip_.get(), &comment, ZIP_FL_ENC_RAW);
  bool same = comment <= 0 &&
              zip_get_num_entries(zip_.get(), 0) == static_cast<zip_int64_t>(records_.size());
  for (size_t i = 0; same && i < records_.size(); ++i) {
    zip_stat_t seen;
    same = zip_stat_index(zip_.get(), i, ZIP_FL_ENC_RAW, &seen) == 0 &&
           seen.name == records_[i].name && seen.size == records_[i].size &&
           seen.comp_size == records_[i].packed && seen.crc == records_[i].crc &&
           seen.comp_method == records_[i].method;
  }
  if (!same)
    throw refused(path,
                  "the archive is ambiguous: two readers of zip files would see different records");
}

std::string ZipArchive::read(const Record& record) const {
  if (record.size > limits_.max_code_bytes) {
    throw refused(path_, "record '" + record.name + "' has " + std::to_string(record.size) +
                             " bytes, more than the limit of " +
                             std::to_string(limits_.max_code_bytes));
  }
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
      zip_fopen_index(zip_.get(), record.index, 0), zip_fclose);
  // One byte more than there should be, so that libzip reaches the end and verifies the checksum.
  std::string bytes(record.size + 1, '\0');
  uint64_t count = 0;
  for (zip_int64_t got = 1; file && got > 0 && count<bytes.size(); count += got> 0 ? got : 0) {
    got = zip_fread(file.get(), bytes.data() + count, bytes.size() - count);
  }
  const bool complete = file && count == record.size &&
                        zip_error_code_zip(zip_file_get_error(file.get())) == ZIP_ER_OK;
  if (!complete)
    throw refused(path_, "record '" + record.name +
                             "' is damaged: it does not unpack to what the directory says");
  bytes.pop_back();
  return bytes;
}

}  // namespace chorus::scan
