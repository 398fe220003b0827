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
  std::string bytes(record.size, '\0');
  RecordStream stream = open(record);
  stream.read(bytes.data(), bytes.size());
  stream.finish();
  return bytes;
}

void RecordStream::Close::operator()(zip_file* file) const { zip_fclose(file); }

RecordStream::RecordStream(zip* archive, std::string path, const Record& record)
    : path_(std::move(path)), name_(record.name), file_(zip_fopen_index(archive, record.index, 0)) {
  if (!file_) damaged();
}

void RecordStream::damaged() const {
  throw refused(path_,
                "record '" + name_ + "' is damaged: it does not unpack to what the directory says");
}

void RecordStream::read(void* into, uint64_t count) {
  for (auto* at = static_cast<char*>(into); count > 0;) {
    const zip_int64_t got = zip_fread(file_.get(), at, count);
    if (got <= 0) damaged();
    at += got;
    count -= static_cast<uint64_t>(got);
  }
}

void RecordStream::finish() {
  // Asking for one byte more makes libzip reach the end, where it verifies the checksum.
  char extra = 0;
  if (zip_fread(file_.get(), &extra, 1) != 0) damaged();
}

}  // namespace chorus::scan
