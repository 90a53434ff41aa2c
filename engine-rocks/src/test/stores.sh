#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Says where tests have their stores: stores.sh OPTIONS memory|DIRECTORY. Called by Maven. OPTIONS is a
# file that it writes, of options of their JVMs (java @OPTIONS). In memory is a new directory of
# /dev/shm, if tests can have their stores there; else it is one beside OPTIONS.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
options=$1
directory=$2
memory=/dev/shm

# Prints a directory in memory. Fails where there is none, as on macOS, or less than 4 GiB of it, as in
# a container by default; and where its files cannot be read as the engine reads them (O_DIRECT, from
# Linux 6.6 on) or not be loaded (noexec).
in_memory() {
  [ -w "$memory" ] || return 1
  [ "$(df -Pk "$memory" | awk 'NR == 2 {print int($4 / 1048576)}')" -ge 4 ] || return 1
  [ "$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)" -ge 8 ] || return 1
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
  [ "$limit" = max ] || [ $((limit / 1073741824)) -ge 8 ] || return 1
  new=$(mktemp -d "$memory/petra-stores-XXXXXX") || return 1
  if {
    echo "$here" >"$new/of" &&
      dd if=/dev/zero of="$new/direct" bs=4096 count=1 oflag=direct &&
      echo '#!/bin/sh' >"$new/loaded" && chmod +x "$new/loaded" && "$new/loaded"
  } >/dev/null 2>&1; then
    rm "$new/direct" "$new/loaded"
    echo "$new"
  else
    rm -rf "$new"
    return 1
  fi
}

# What former runs of this checkout left there, if they were killed.
for old in "$memory"/petra-stores-*; do
  if [ -O "$old" ] && [ ! -L "$old" ] && [ "$(cat "$old/of" 2>/dev/null)" = "$here" ]; then
    rm -rf "$old"
  fi
done

if [ "$directory" = memory ]; then
  directory=$(in_memory) || {
    directory=$(dirname "$options")/stores
    rm -rf "$directory"
  }
fi
mkdir -p "$directory" "$(dirname "$options")"
echo "\"-Djava.io.tmpdir=$directory\"" >"$options"
echo "Tests have their stores in $directory"
