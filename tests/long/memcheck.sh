#!/usr/bin/env bash
# Runs the suites of the native modules under valgrind's memcheck, which must find no invalid access, no use of
# uninitialized memory, and no memory that is lost at the end. Called by tests/run.sh --long, or by hand:
#   [LIO_BIN=path/to/lio] [LIO_MEMCHECK_SECONDS=300] [LIO_TEST_JOBS=2] tests/long/memcheck.sh [WORD]
# The programs that a suite starts in its host run under memcheck too. A suite fails if memcheck reports an error or if
# the suite does not end in time. Failed assertions of a suite are only printed: memcheck is slow, so deadlines may
# expire. LIO_TEST_JOBS suites run at the same time (default: one for each processor, because memcheck computes all the
# time). The last line is "N passed, M failed".
# Memcheck needs a second to start a program, and some suites start a program for each test. So that all suites end
# within the limit of run.sh on two processors, LIO_MEMCHECK makes the test kit boot each system of ltask only with
# two workers, leave out the variants of net_remote_test.lua that repeat other suites, and leave out tests that
# lower the limit of descriptors.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

lio=${LIO_BIN:-${CARGO_TARGET_DIR:-target}/release/lio}
limit=${LIO_MEMCHECK_SECONDS:-300} jobs=${LIO_TEST_JOBS:-$(getconf _NPROCESSORS_ONLN)}
word=${1:-}

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

# Each suite leads a process group, which run.sh does not know: when run.sh ends this script, the suites must end too.
finish() {
  for pid in "$scratch"/*/pid; do
    if [ -e "$pid" ]; then kill "$(cat "$pid")" 2>/dev/null; fi
  done
  wait
  rm -rf "$scratch"
}
trap finish EXIT
export LIO_BIN=$lio LUA_PATH="$PWD/?.lua;;" LIO_MEMCHECK=1
# Without the names of inlined functions, memcheck starts in two thirds of the time. An empty variable shows them.
export VALGRIND_OPTS=${VALGRIND_OPTS---read-inline-info=no}

# check FOLDER FILE: runs the suite FILE, prints its result, and writes "passed" or "failed" to FOLDER/result.
check() {
  local folder=$1 file=$2 status what='' result=passed started=$SECONDS
  # The host of the suite. Memcheck is quiet, so a report contains only errors.
  cat >"$folder/lio" <<END
#!/bin/sh
# The VM allocates with malloc, which memcheck checks.
LIO_MALLOC=libc exec valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite \\
  --errors-for-leak-kinds=definite --num-callers=30 --suppressions='$PWD/tests/long/memcheck.supp' \\
  --log-file='$folder/report.%p' '$lio' "\$@"
END
  chmod +x "$folder/lio"
  LIO_HOST=$folder/lio LIO_TEST_STATE=$folder/state \
    timeout -k 5 "$limit" "$folder/lio" "$file" >"$folder/out" 2>&1 </dev/null &
  echo $! >"$folder/pid"
  wait $!
  status=$?
  rm "$folder/pid"
  if [ "$status" -gt 128 ]; then what="ended by signal $((status - 128))"; fi
  if [ "$status" = 124 ] || [ "$status" = 137 ]; then
    what="ran longer than $limit s, in the test: $(cat "$folder/state" 2>/dev/null)"
  fi
  # Valgrind's own messages, such as an unknown system call, begin with dashes.
  if grep -qs '^==' "$folder"/report.*; then what='memcheck has reported errors'; fi
  if ! [ -e "$(find "$folder" -name 'report.*' -print -quit)" ]; then what='nothing ran under memcheck'; fi
  # The lines are printed at once, because other suites print at the same time.
  {
    if [ -z "$what" ]; then
      printf '%-40s clean: %s (%d s)\n' "$file" "$(tail -n 1 "$folder/out")" $((SECONDS - started))
      if [ "$status" != 0 ]; then sed 's/^/    /' "$folder/out"; fi
    else
      result=failed
      printf '%-40s FAILED: %s (%d s)\n' "$file" "$what" $((SECONDS - started))
      tail -n 20 "$folder/out" | sed 's/^/    /'
      grep -hs '^==' "$folder"/report.* | head -n 200 | sed 's/^/    /'
    fi
  } >"$folder/lines"
  cat "$folder/lines"
  echo "$result" >"$folder/result"
}

# The suites that boot a system for each test come first, because they take longest.
started=0 running=0
for pattern in net_remote net_any_service net_service net selector socket web json loop task reentry coroutine_wait thread; do
  for file in tests/"$pattern"_*test.lua; do
    folder=$scratch/$(basename "$file" .lua)
    case $file in
      *selector_scale* | *socket_process*) continue ;; # memcheck does not respect descriptor limits
      *"$word"*) if [ ! -e "$file" ] || [ -e "$folder" ]; then continue; fi ;;
      *) continue ;;
    esac
    if [ "$running" -ge "$jobs" ]; then
      wait -n
      running=$((running - 1))
    fi
    mkdir "$folder"
    started=$((started + 1)) running=$((running + 1))
    check "$folder" "$file" &
  done
done
wait

# A suite without a result counts as a failure.
passed=$(cat "$scratch"/*/result 2>/dev/null | grep -c passed)
echo "$passed passed, $((started - passed)) failed"
[ "$passed" -gt 0 ] && [ "$passed" = "$started" ]
