// Output files appear whole or not at all: written under a temporary name in the target's folder,
// synced, renamed.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

namespace chorus {

/// A set of output files that all appear, or none. Stage each, write to the name it returns, commit
/// once. What was not committed is removed by the destructor, and by SIGINT or SIGTERM where
/// `removeTemporaryFilesOnSignal` was called.
class PendingFiles {
 public:
  PendingFiles() = default;
  PendingFiles(const PendingFiles&) = delete;
  PendingFiles& operator=(const PendingFiles&) = delete;
  ~PendingFiles();

  /// Creates an empty temporary file beside `path` and returns its name. Follows a symbolic link.
  /// Throws Refused (error) where the folder is missing or not writable, or `path` is not a regular
  /// file.
  std::string stage(const std::string& path);
  /// Syncs all files, then renames them in the order they were staged (so stage a manifest last).
  /// Throws Refused where the disk is full; then files that did not exist before are gone again.
  void commit();

 private:
  struct Entry {
    std::string temporary, target;
    bool existed = false;
  };
  std::vector<Entry> entries_;
};

/// `write` gets the name of the temporary file. Whatever it throws, `path` stays as it was.
void writeAtomically(const std::string& path, const std::function<void(const std::string&)>& write);
/// `write` gets a binary stream; a failed stream is an error. Prefer this one for `Module::save`:
/// given a name, it names the archive's inner folder after the temporary file.
void writeAtomically(const std::string& path, const std::function<void(std::ostream&)>& write);

/// Unlinks every temporary file of this process. Safe in a signal handler.
void removeTemporaryFiles() noexcept;
/// From now on SIGINT and SIGTERM remove the temporary files and end the process with 130.
void removeTemporaryFilesOnSignal();

}  // namespace chorus
