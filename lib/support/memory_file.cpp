#include "lib/support/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "chorus/diagnostics.h"

namespace chorus {

MemoryFile::MemoryFile(const std::string& content)
    : descriptor_(::memfd_create("chorus", MFD_CLOEXEC)) {
  size_t done = 0;
  while (descriptor_ >= 0 && done < content.size()) {
    const ssize_t wrote = ::write(descriptor_, content.data() + done, content.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) break;
    done += static_cast<size_t>(wrote);
  }
  if (descriptor_ >= 0 && done == content.size()) return;
  const std::string why = std::strerror(errno);
  if (descriptor_ >= 0) ::close(descriptor_);
  throw Refused(error("cannot keep a model in memory: " + why));
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

MemoryFile::~MemoryFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string MemoryFile::path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

}  // namespace chorus
