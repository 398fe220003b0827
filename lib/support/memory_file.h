// A file that lies in memory and has no name in any folder.
#pragma once

#include <string>

namespace chorus {

/// Readable under path() while it lives. Throws Refused (error) where there is no memory for it.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& content);
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();

  std::string path() const;

 private:
  int descriptor_;
};

}  // namespace chorus
