#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fuzzes the native parser, merge and purge under ASan and UBSan: fuzz.sh OUTPUT_DIRECTORY SECONDS.
# The directory is absolute; two processes fuzz for so many seconds each.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
native=$here/../../main/native
out=$1
seconds=$2
command -v clang++ >/dev/null || {
  echo "fuzz.sh: NOT RUN: no clang++ (Debian: apt-get install clang libclang-rt-14-dev)" >&2
  exit 0
}
mkdir -p "$out/corpus"
sanitizers=-fsanitize=fuzzer,address,undefined
compile() { # source object
  clang++ -std=c++17 -g -O1 $sanitizers -fno-sanitize-recover=all -Wall -Wextra -Werror \
    -I"$native" -c "$1" -o "$out/$2.o"
}
# Two at a time.
compile "$native/reconcile.cpp" reconcile &
reconcile=$!
compile "$here/fuzz.cpp" fuzz
compile "$native/fragment.cpp" fragment
wait "$reconcile"
clang++ $sanitizers "$out/fuzz.o" "$out/fragment.o" "$out/reconcile.o" -o "$out/fuzz"
# The examples of docs/FORMAT.md and mergings of them: where fuzzing starts.
i=0
for hex in \
  001404140000000000000f42400001026869020104000000010404 \
  000e000c0000000000000005000101750 \
  000e000c00000000000000050001017500 0e000000000000000600020000006400 \
  00261c24000000000000000a3c0000042401000003e80015017403010100000 3e80101700904017600 \
  001015180000000000000003000003e80000000000000004000003e8 \
  000e020c0000000000000004000003e8020c0000000000000005000003e7 \
  001400120000000000000005004000112233445566770012000000000000000500400011223344556688
do
  i=$((i + 1))
  printf '%s' "$hex" | sed 's/[^0-9a-f]//g' | xxd -r -p >"$out/corpus/seed$i" 2>/dev/null ||
    printf '\0\1' >"$out/corpus/seed$i"
done
# Two processes share the corpus, and their logs are fuzz-0.log and fuzz-1.log.
rm -f "$out"/fuzz-*.log
(
  cd "$out"
  ./fuzz -jobs=2 -workers=2 -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$out/" corpus >/dev/null 2>&1
) || {
  tail -n 40 "$out"/fuzz-*.log >&2
  echo "fuzz.sh: FAILED; the input is in $out" >&2
  exit 1
}
grep -hE 'number_of_executed_units|Done' "$out"/fuzz-*.log | sed 's/^/fuzz.sh: /'
