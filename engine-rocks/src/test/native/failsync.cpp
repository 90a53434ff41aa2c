// SPDX-License-Identifier: Apache-2.0
// Stands between a process and its disk (LD_PRELOAD). While the file PETRA_FULL is there, the next
// write to a log of RocksDB's finds no room; while PETRA_BAD is, the next sync of one fails, and the
// log is as it was synced last. Each is told once, as by a kernel, and its file is gone then.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

// By descriptor: how long a log was when it was synced last.
off_t synced[65536];

bool isLog(int fd) {
  char file[64], path[4096];
  snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(file, path, sizeof path - 1);
  return length > 4 && memcmp(path + length - 4, ".log", 4) == 0;
}

bool take(const char* name) {
  const char* file = getenv(name);
  return file != nullptr && unlink(file) == 0;
}

int sync(int fd, const char* name) {
  auto real = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, name));
  struct stat about;
  if (fd >= 65536 || !isLog(fd) || fstat(fd, &about) != 0) return real(fd);
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

}  // namespace

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
