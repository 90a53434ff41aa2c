#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds libpetra.so: native/build.sh OUTPUT_DIRECTORY. Called by Maven. For this machine, and for
# aarch64 where its cross compiler (Debian: g++-aarch64-linux-gnu) is installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1

java_home=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")}
[ -f "$java_home/include/jni.h" ] || {
  echo "native/build.sh: no include/jni.h in $java_home; set JAVA_HOME to a JDK 17" >&2
  exit 1
}

build() { # compiler platform
  target="$out/dev/petra/native/$2"
  mkdir -p "$target"
  # Where it is built, and from which JDK, must not be seen in it: two builds give the same bytes.
  # Without the C++ runtime library: another one may be in the process already.
  "$1" -std=c++17 -shared -fPIC -O2 -g1 -fvisibility=hidden -fno-exceptions -fno-rtti \
    -ffile-prefix-map="$here"=native -ffile-prefix-map="$java_home"=jdk \
    -ffile-prefix-map="$PWD"=. -Wall -Wextra -Werror -Wl,-z,nodelete -Wl,-z,now -Wl,--no-undefined \
    -I"$java_home/include" -I"$java_home/include/linux" \
    "$here"/fragment.cpp "$here"/reconcile.cpp "$here"/store.cpp "$here"/crc32c.cpp "$here"/jni.cpp \
    -nodefaultlibs -lc -lgcc -ldl -lpthread -o "$target/libpetra.so"
}

machine=$(uname -m)
compiler=${CXX:-g++}
command -v "$compiler" >/dev/null || {
  echo "native/build.sh: no C++ compiler '$compiler'; install one (Debian: apt-get install g++)," \
    "or name one in CXX" >&2
  exit 1
}
build "$compiler" "linux-$machine"
if [ "$machine" = x86_64 ] && command -v aarch64-linux-gnu-g++ >/dev/null; then
  build aarch64-linux-gnu-g++ linux-aarch64
fi
