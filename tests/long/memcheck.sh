#!/usr/bin/env bash
# Runs the suites of the native modules under valgrind's memcheck, which must find no invalid access, no use of
# uninitialized memory, and no memory that is lost at the end. Called by tests/run.sh --long, or by hand:
#   [LIO_BIN=path/to/lio] [LIO_MEMCHECK_SECONDS=240] tests/long/memcheck.sh [WORD]
# The programs that a suite starts in its host run under memcheck too. A suite fails if memcheck reports an error or if
# the suite does not end in time. Failed assertions of a suite are only printed: memcheck is slow, so deadlines may
# expire. The last line is "N passed, M failed".
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

lio=${LIO_BIN:-${CARGO_TARGET_DIR:-target}/release/lio}
limit=${LIO_MEMCHECK_SECONDS:-240}
word=${1:-}
passed=0 failed=0

if ! command -v valgrind >/dev/null; then
  echo "memcheck.sh: valgrind is missing (Debian package: valgrind)"
  echo "0 passed, 1 failed"
  exit 1
fi
case $lio in
  /*) ;;
  *) lio=$PWD/$lio ;;
esac
# The kit checks each descriptor up to the highest one, and the descriptors of memcheck have the highest possible
# numbers.
ulimit -n 2048
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The host of the suites. Memcheck is quiet, so a report contains only errors.
cat >"$scratch/lio" <<END
#!/bin/sh
# The VM allocates with malloc, which memcheck checks.
LIO_MALLOC=libc exec valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite \\
  --errors-for-leak-kinds=definite --num-callers=30 --log-file='$scratch/report.%p' '$lio' "\$@"
END
chmod +x "$scratch/lio"
export LIO_HOST=$scratch/lio LIO_BIN=$lio LUA_PATH="$PWD/?.lua;;"

# check FILE: runs the suite FILE and counts it.
check() {
  local file=$1 status what='' started=$SECONDS
  rm -f "$scratch"/report.*
  timeout -k 5 "$limit" "$scratch/lio" "$file" >"$scratch/out" 2>&1 </dev/null
  status=$?
  if [ "$status" = 124 ] || [ "$status" = 137 ]; then what="ran longer than $limit s"; fi
  if [ "$status" -gt 128 ]; then what="ended by signal $((status - 128))"; fi
  # Valgrind's own messages, such as an unknown system call, begin with dashes.
  if grep -qs '^==' "$scratch"/report.*; then what='memcheck has reported errors'; fi
  if [ -z "$what" ]; then
    passed=$((passed + 1))
    printf '%-40s clean: %s (%d s)\n' "$file" "$(tail -n 1 "$scratch/out")" $((SECONDS - started))
    if [ "$status" != 0 ]; then sed 's/^/    /' "$scratch/out"; fi
    return
  fi
  failed=$((failed + 1))
  printf '%-40s FAILED: %s (%d s)\n' "$file" "$what" $((SECONDS - started))
  tail -n 20 "$scratch/out" | sed 's/^/    /'
  grep -hs '^==' "$scratch"/report.* | head -n 200 | sed 's/^/    /'
}

for pattern in selector socket net web json loop task reentry coroutine_wait thread; do
  for file in tests/"$pattern"_*test.lua; do
    case $file in
      *selector_scale* | *socket_process*) continue ;; # memcheck does not respect descriptor limits
      *"$word"*) [ -e "$file" ] && check "$file" ;;
    esac
  done
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
