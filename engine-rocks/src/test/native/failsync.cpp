// SPDX-License-Identifier: Apache-2.0
// Stands between a process and its disk (LD_PRELOAD). While the file PETRA_FULL is there, the next
// write to a log of RocksDB's finds no room; while PETRA_BAD is, the next sync of one fails, and the
// log is as it was synced last; while PETRA_BAD_DIRECTORY is, that of the directory fails behind the
// sync of a log; while PETRA_BAD_OTHER_DIRECTORY is, that of one which is not behind a log's, by
// whatever descriptor; while PETRA_BAD_CHECKPOINT is, that of a checkpoint's. Each is told once, as by
// a kernel, and its file is gone then. While PETRA_MEANWHILE is there, no log is made: a sync of one by
// Java takes it away, and waits until PETRA_BAD is gone.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

// By descriptor: how long a log was when it was synced last.
off_t synced[65536];

// Whether the thread has just synced a log.
thread_local bool behindLog = false;

bool isLogName(const char* path, size_t length) {
  return length > 4 && memcmp(path + length - 4, ".log", 4) == 0;
}

// Its length; 0 if it has none.
size_t pathOf(int fd, char (&path)[4096]) {
  char file[64];
  snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(file, path, sizeof path - 1);
  path[length > 0 ? length : 0] = 0;
  return length > 0 ? length : 0;
}

bool isLog(int fd) {
  char path[4096];
  return isLogName(path, pathOf(fd, path));
}

bool isOfCheckpoint(int fd) {
  char path[4096];
  return pathOf(fd, path) > 0 && strstr(path, ".partial") != nullptr;
}

bool isThere(const char* name) {
  const char* file = getenv(name);
  return file != nullptr && access(file, F_OK) == 0;
}

void awaitGone(const char* name) {
  while (isThere(name)) usleep(1000);
}

bool take(const char* name) {
  const char* file = getenv(name);
  return file != nullptr && unlink(file) == 0;
}

int sync(int fd, const char* name) {
  auto real = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, name));
  struct stat about;
  if (fd >= 65536 || fstat(fd, &about) != 0) return real(fd);
  if (isOfCheckpoint(fd)) {
    if (!S_ISDIR(about.st_mode) || !take("PETRA_BAD_CHECKPOINT")) return real(fd);
    errno = EIO;
    return -1;
  }
  bool named = behindLog;
  behindLog = isLog(fd);
  if (!behindLog) {
    const char* bad = named ? "PETRA_BAD_DIRECTORY" : "PETRA_BAD_OTHER_DIRECTORY";
    if (!S_ISDIR(about.st_mode) || !take(bad)) return real(fd);
    errno = EIO;
    return -1;
  }
  // RocksDB calls fdatasync.
  if (strcmp(name, "fsync") == 0 && take("PETRA_MEANWHILE")) awaitGone("PETRA_BAD");
  pthread_mutex_lock(&one_at_a_time);
  bool fails = take("PETRA_BAD");
  if (!fails) synced[fd] = about.st_size;
  off_t left = synced[fd];
  pthread_mutex_unlock(&one_at_a_time);
  if (!fails) return real(fd);
  if (about.st_size > left && ftruncate(fd, left) != 0) abort();
  errno = EIO;
  return -1;
}

int openFile(const char* name, const char* path, int flags, va_list more) {
  mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  if ((flags & O_CREAT) != 0 && isLogName(path, strlen(path))) awaitGone("PETRA_MEANWHILE");
  return reinterpret_cast<int (*)(const char*, int, mode_t)>(dlsym(RTLD_NEXT, name))(path, flags,
                                                                                   mode);
}

}  // namespace

extern "C" int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  int fd = openFile("open", path, flags, more);
  va_end(more);
  return fd;
}

extern "C" int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  int fd = openFile("open64", path, flags, more);
  va_end(more);
  return fd;
}

extern "C" int fsync(int fd) { return sync(fd, "fsync"); }

extern "C" int fdatasync(int fd) { return sync(fd, "fdatasync"); }

extern "C" ssize_t write(int fd, const void* bytes, size_t count) {
  auto real = reinterpret_cast<ssize_t (*)(int, const void*, size_t)>(dlsym(RTLD_NEXT, "write"));
  if (!isLog(fd) || !take("PETRA_FULL")) return real(fd, bytes, count);
  // Half of what was to be written.
  if (real(fd, bytes, count / 2) < 0) abort();
  errno = ENOSPC;
  return -1;
}
