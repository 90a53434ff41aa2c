// SPDX-License-Identifier: Apache-2.0
// Stands between a process and its disk (LD_PRELOAD): of each file below PETRA_DISK, what was in it
// when it was synced last is kept in PETRA_SYNCED, by inode and nanoseconds of birth. A file that
// is renamed and written over stays the one that it was. PowerLossTest makes a disk of that.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

void check(bool holds, const char* what) {
  if (holds) return;
  perror(what);
  abort();
}

void copy(const char* from, const char* to) {
  char buffer[1 << 16];
  int in = open(from, O_RDONLY);
  int out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  check(in >= 0 && out >= 0, from);
  ssize_t n;
  while ((n = read(in, buffer, sizeof buffer)) > 0) check(write(out, buffer, n) == n, to);
  check(n == 0 && close(in) == 0 && close(out) == 0, from);
}

// What is written from here on need not be in what the sync makes durable.
int sync(int fd) {
  const char* disk = getenv("PETRA_DISK");
  const char* synced = getenv("PETRA_SYNCED");
  char file[64], path[4096], next[4096], last[4096];
  snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(file, path, sizeof path - 1);
  if (disk == nullptr || synced == nullptr || length < 0) return 0;
  path[length] = 0;
  struct statx about;
  if (strncmp(path, disk, strlen(disk)) != 0) return 0;
  check(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &about) == 0, path);
  if (!S_ISREG(about.stx_mode)) return 0;
  snprintf(next, sizeof next, "%s/next", synced);
  snprintf(last, sizeof last, "%s/%llu-%u", synced, (unsigned long long)about.stx_ino,
           about.stx_btime.tv_nsec);
  pthread_mutex_lock(&one_at_a_time);
  copy(file, next);
  // A disk is slow, and until it has answered nothing is certain.
  usleep(2000);
  check(rename(next, last) == 0, last);
  pthread_mutex_unlock(&one_at_a_time);
  return 0;
}

}  // namespace

extern "C" int fsync(int fd) { return sync(fd); }

extern "C" int fdatasync(int fd) { return sync(fd); }
