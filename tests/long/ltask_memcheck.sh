#!/usr/bin/env bash
# Runs the scheduler under valgrind's memcheck: a short random load with two workers, and six boots in one process.
# No access to memory may be invalid, and no memory may be lost at the end. Called by tests/run.sh --long, or by hand:
#   [LIO_BIN=path/to/lio] [LIO_STRESS_SEED=n] tests/long/ltask_memcheck.sh
# The last line is "N passed, M failed".
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

lio=${LIO_BIN:-${CARGO_TARGET_DIR:-target}/release/lio}
limit=${LIO_MEMCHECK_SECONDS:-400}
passed=0 failed=0

if ! command -v valgrind >/dev/null; then
  echo "ltask_memcheck.sh: valgrind is missing (Debian package: valgrind)"
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

# The host runs under memcheck, which schedules threads fairly. Memcheck is quiet, so every line of a report is an
# error.
cat >"$scratch/lio" <<END
#!/bin/sh
LIO_MALLOC=libc exec valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite \\
  --errors-for-leak-kinds=definite --num-callers=30 --fair-sched=yes \\
  --log-file='$scratch/report.%p' '$lio' "\$@"
END
chmod +x "$scratch/lio"
export LIO_BIN=$lio LUA_PATH="$PWD/?.lua;;" LIO_MEMCHECK=1 LIO_STRESS_PATIENCE=80

# check NAME HOST FILE ARGS...: runs the suite FILE in HOST and counts it. Its child processes run under memcheck.
check() {
  local name=$1 host=$2 status what='' started=$SECONDS
  shift 2
  rm -f "$scratch"/report.*
  LIO_HOST=$scratch/lio timeout -k 5 "$limit" "$host" "$@" >"$scratch/out" 2>&1 </dev/null
  status=$?
  if [ "$status" != 0 ]; then what="exit code $status"; fi
  if [ "$status" = 124 ] || [ "$status" = 137 ]; then what="ran longer than $limit s"; fi
  if find "$scratch" -name 'report.*' -size +0c | grep -q .; then what='memcheck has reported errors'; fi
  if ! find "$scratch" -name 'report.*' | grep -q .; then what='nothing ran under memcheck'; fi
  if [ -z "$what" ]; then
    passed=$((passed + 1))
    printf '%s: clean (%d s)\n' "$name" $((SECONDS - started))
    sed 's/^/    /' "$scratch/out"
    return
  fi
  failed=$((failed + 1))
  printf '%s: FAILED: %s (%d s)\n' "$name" "$what" $((SECONDS - started))
  tail -n 40 "$scratch/out" | sed 's/^/    /'
  cat "$scratch"/report.* 2>/dev/null | head -n 200 | sed 's/^/    /'
}

check "random load" "$lio" tests/long/ltask_stress.lua 6 "${LIO_STRESS_SEED:-7}" 2 5
check "six boots" "$scratch/lio" tests/long/ltask_boots.lua 6
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
