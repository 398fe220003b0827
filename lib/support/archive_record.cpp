#include "lib/support/archive_record.h"

#include <caffe2/serialize/inline_container.h>

namespace chorus {

std::optional<std::string> extraRecord(const std::string& path, const std::string& name) {
  try {
    caffe2::serialize::PyTorchStreamReader reader(path);
    const std::string record = "extra/" + name;
    if (!reader.hasRecord(record)) return std::nullopt;
    const auto [data, size] = reader.getRecord(record);
    return std::string(static_cast<const char*>(data.get()), size);
  } catch (const std::exception&) {
    return std::nullopt;  // no archive at all: scanArchive says what it is
  }
}

}  // namespace chorus
