#include "lib/support/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "chorus/diagnostics.h"

namespace chorus {
namespace {

namespace fs = std::filesystem;

// The names a signal handler has to unlink: a list that only grows (dead entries are used again),
// so that the handler can walk it at any moment without a lock.
struct Temporary {
  std::string path;
  std::atomic<bool> alive = false;
  Temporary* next = nullptr;
};
std::atomic<Temporary*> first_temporary = nullptr;
std::mutex temporaries_mutex;

void remember(const std::string& path) {
  const std::lock_guard<std::mutex> lock(temporaries_mutex);
  Temporary* entry = first_temporary;
  while (entry && entry->alive) entry = entry->next;
  if (!entry) {
    entry = new Temporary;
    entry->next = first_temporary;
    first_temporary = entry;
  }
  entry->path = path;
  entry->alive = true;
}

void forget(const std::string& path) {
  const std::lock_guard<std::mutex> lock(temporaries_mutex);
  for (Temporary* entry = first_temporary; entry; entry = entry->next) {
    if (entry->alive && entry->path == path) entry->alive = false;
  }
}

void onSignal(int) {
  removeTemporaryFiles();
  _exit(130);
}

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  Place place;
  place.file = path;
  throw Refused(error(what, place));
}

[[noreturn]] void refuseErrno(const std::string& path, const std::string& doing) {
  refuse(path, doing + ": " + std::strerror(errno));
}

fs::path folderOf(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

mode_t fileMode(const fs::path& target) {
  struct stat existing;
  if (::stat(target.c_str(), &existing) == 0) return existing.st_mode & 07777;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

void syncPath(const std::string& path, const std::string& target) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) refuseErrno(target, "cannot write the file");
  const bool failed = ::fsync(file) != 0 && errno != EINVAL && errno != EROFS;
  ::close(file);
  if (failed) refuseErrno(target, "cannot write the file");
}

fs::path resolveTarget(const std::string& path) {
  std::error_code ignored;
  fs::path target = path;
  if (fs::is_symlink(target, ignored)) {
    const fs::path resolved = fs::weakly_canonical(target, ignored);
    if (!ignored) target = resolved;
  }
  if (path.empty() || !target.has_filename() || fs::is_directory(target, ignored)) {
    refuse(path, "is a folder; a file name is needed");
  }
  if (fs::exists(target, ignored) && !fs::is_regular_file(target, ignored)) {
    refuse(path, "is not a regular file, so it cannot be replaced");
  }
  const fs::path folder = folderOf(target);
  if (!fs::exists(folder, ignored))
    refuse(path, "the folder '" + folder.string() + "' does not exist");
  if (!fs::is_directory(folder, ignored)) refuse(path, "'" + folder.string() + "' is not a folder");
  return target;
}

}  // namespace

PendingFiles::~PendingFiles() {
  for (const Entry& entry : entries_) {
    ::unlink(entry.temporary.c_str());
    forget(entry.temporary);
  }
}

std::string PendingFiles::stage(const std::string& path) {
  const fs::path target = resolveTarget(path);
  std::string temporary = (folderOf(target) / ".chorus-tmp-XXXXXX").string();
  const int file = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0) refuseErrno(path, "cannot write to the folder '" + folderOf(target).string() + "'");
  remember(temporary);
  ::fchmod(file, fileMode(target));
  ::close(file);
  entries_.push_back({temporary, target.string(), fs::exists(target)});
  return temporary;
}

void PendingFiles::commit() {
  for (const Entry& entry : entries_) syncPath(entry.temporary, entry.target);
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (::rename(entries_[i].temporary.c_str(), entries_[i].target.c_str()) == 0) continue;
    const int reason = errno;
    for (size_t j = 0; j < i; ++j) {
      if (!entries_[j].existed) ::unlink(entries_[j].target.c_str());
    }
    errno = reason;
    refuseErrno(entries_[i].target, "cannot write the file");
  }
  for (const Entry& entry : entries_) forget(entry.temporary);
  // The names themselves reach the disk with their folder. One that cannot be synced is no reason
  // to fail.
  std::set<fs::path> folders;
  for (const Entry& entry : entries_) folders.insert(folderOf(entry.target));
  for (const fs::path& path : folders) {
    const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) continue;
    ::fsync(folder);
    ::close(folder);
  }
  entries_.clear();
}

void writeAtomically(const std::string& path,
                     const std::function<void(const std::string&)>& write) {
  PendingFiles files;
  write(files.stage(path));
  files.commit();
}

void writeAtomically(const std::string& path, const std::function<void(std::ostream&)>& write) {
  PendingFiles files;
  std::ofstream out(files.stage(path), std::ios::binary | std::ios::trunc);
  write(out);
  out.close();
  if (!out) refuseErrno(path, "cannot write the file");
  files.commit();
}

void removeTemporaryFiles() noexcept {
  for (const Temporary* entry = first_temporary; entry; entry = entry->next) {
    if (entry->alive) ::unlink(entry->path.c_str());
  }
}

void removeTemporaryFilesOnSignal() {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace chorus
