// SPDX-License-Identifier: Apache-2.0
// Stands between a process and its disk (LD_PRELOAD): a sync of a MANIFEST fails while a file below
// PETRA_STAGED has a second link, as it has while it is ingested. What was to be synced is written.
// The first makes the file PETRA_GATE before, if that is set, and waits until it is gone. If
// PETRA_UNLINKED is set, nothing can be linked any more from then on.
// FailedIngestTest uses it.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace {

bool isLinked(const char* directory) {
  DIR* dir = opendir(directory);
  if (dir == nullptr) return false;
  bool linked = false;
  while (dirent* entry = readdir(dir)) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
    struct stat about;
    if (lstat(path, &about) != 0) continue;
    if (S_ISDIR(about.st_mode) ? isLinked(path) : about.st_nlink > 1) linked = true;
  }
  closedir(dir);
  return linked;
}

bool fails(int fd) {
  const char* staged = getenv("PETRA_STAGED");
  char file[64], path[4096];
  snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(file, path, sizeof path - 1);
  if (staged == nullptr || length < 0) return false;
  path[length] = 0;
  return strstr(path, "/MANIFEST-") != nullptr && isLinked(staged);
}

void waitAtGate() {
  static std::atomic_flag waited = ATOMIC_FLAG_INIT;
  const char* gate = getenv("PETRA_GATE");
  if (gate == nullptr || waited.test_and_set()) return;
  close(open(gate, O_CREAT | O_WRONLY, 0600));
  while (access(gate, F_OK) == 0) usleep(1000);
}

std::atomic<bool> failed{false};

int sync(int fd, long call) {
  if (!fails(fd)) return static_cast<int>(syscall(call, fd));
  waitAtGate();
  failed = true;
  errno = EIO;
  return -1;
}

}  // namespace

extern "C" int fsync(int fd) { return sync(fd, SYS_fsync); }

extern "C" int fdatasync(int fd) { return sync(fd, SYS_fdatasync); }

extern "C" int linkat(int from, const char* file, int to, const char* name, int flags) noexcept {
  if (failed && getenv("PETRA_UNLINKED") != nullptr) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(syscall(SYS_linkat, from, file, to, name, flags));
}

extern "C" int link(const char* file, const char* name) noexcept {
  return linkat(AT_FDCWD, file, AT_FDCWD, name, 0);
}
