#!/usr/bin/env bash
# Runs the Lua suites and counts their tests. Called by `make suites` (part of `make test`) and `make test-long`:
#   LIO_BIN=path/to/lio [STOCK=lua5.4] [MODULES=build] tests/run.sh [--long] [WORD]
# Every tests/*_test.lua whose name contains WORD runs in the executable; WORD may be several words with spaces between. Unless STOCK is empty, it also runs in the
# interpreter STOCK with the lio.so of the folder MODULES. With --long the suites are tests/long/*.lua (except
# *_server.lua) and tests/long/*.sh. A suite that crashes, hangs or prints no closing line counts as one failure.
# A suite that runs no test must print a line that begins with "left out" and has the reason.
# LIO_TEST_JOBS suites run at the same time (default: two for each processor, because suites mostly wait); with --long,
# one. The last line is "N passed, M failed".
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

folder=tests pattern='*_test.lua' limit=${LIO_TEST_SECONDS:-120} jobs=${LIO_TEST_JOBS:-$((2 * $(getconf _NPROCESSORS_ONLN)))}
if [ "${1:-}" = --long ]; then
  shift
  folder=tests/long pattern='*' limit=${LIO_TEST_SECONDS:-900} jobs=1
fi
words=${1:-}

# selected FILE: whether the name contains one of the words, or there is no word.
selected() {
  local word
  if [ -z "$words" ]; then return 0; fi
  for word in $words; do
    case $(basename "$1") in *"$word"*) return 0 ;; esac
  done
  return 1
}

root=$PWD
case ${LIO_BIN:=target/release/lio} in
  /*) ;;
  *) LIO_BIN=$root/$LIO_BIN ;;
esac
if [ ! -x "$LIO_BIN" ]; then
  echo "tests/run.sh: no executable at $LIO_BIN: run make build" >&2
  exit 1
fi
stock=${STOCK-lua5.4}
modules=$root/${MODULES:-build}
if [ -n "$stock" ] && [ ! -e "$modules/lio.so" ]; then
  echo "tests/run.sh: no $modules/lio.so: run make module" >&2
  exit 1
fi
case $stock in
  /* | '') ;;
  */*) stock=$root/$stock ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LIO_BIN
# The environment of the caller must not change which modules the suites load.
unset LUA_INIT LUA_INIT_5_4 LUA_INIT_5_5 LUA_PATH_5_4 LUA_PATH_5_5 LUA_CPATH LUA_CPATH_5_4 LUA_CPATH_5_5
export LUA_PATH="$root/?.lua;;"
started=0 running=0

# run_suite HOST FILE COMMAND...: runs COMMAND with FILE, prints a line, and records the numbers of passed and failed
# tests.
run_suite() {
  local host=$1 file=$2 job=$scratch/$started log status closing p f what= began=$SECONDS
  shift 2
  log=$job.log
  export LIO_TEST_STATE=$job.state
  # timeout leads a process group, so when it ends the suite, the processes that the suite started end too.
  timeout -k 5 "$limit" "$@" "$file" >"$log" 2>&1 </dev/null
  status=$?
  closing=$(tail -n 1 "$log" | grep -E '^[0-9]+ passed, [0-9]+ failed$')
  p=0 f=0
  if [ -n "$closing" ]; then
    read -r p _ f _ <<<"$closing"
    sed -i '$d' "$log"
  fi
  if [ "$status" = 124 ] || [ "$status" = 137 ]; then
    what="ran longer than $limit s"
  elif [ -z "$closing" ]; then
    what="exit code $status without a closing line"
  elif [ "$status" != 0 ] && [ "$f" = 0 ]; then
    what="exit code $status after its closing line"
  elif [ "$p" = 0 ] && [ "$f" = 0 ] && ! grep -q '^left out ' "$log"; then
    what="ran no test"
  fi
  if [ -n "$what" ]; then
    f=$((f + 1))
    if [ -s "$LIO_TEST_STATE" ]; then what="$what, in the test: $(cat "$LIO_TEST_STATE")"; fi
  fi
  {
    printf '%-8s %-40s %4d ok' "$host" "$file" "$p"
    if [ "$f" != 0 ]; then printf ', %d FAILED' "$f"; fi
    printf '  (%d s)\n' $((SECONDS - began))
    if [ "$f" != 0 ] || [ -n "${VERBOSE:-}" ]; then
      sed 's/^/    /' "$log"
    else
      sed -n 's/^left out /    &/p' "$log"
    fi
    if [ -n "$what" ]; then echo "    FAILED: $what"; fi
  } >"$job.report"
  # The report is written at once, because other jobs print at the same time.
  cat "$job.report"
  echo "$p $f" >"$job.count"
}

in_lio() {
  LIO_HOST=$LIO_BIN run_suite lio "$1" "$LIO_BIN"
}

in_stock() {
  LIO_HOST=$stock LUA_CPATH="$modules/?.so;;" run_suite "$(basename "$stock")" "$1" "$stock"
}

# begin COMMAND...: runs COMMAND in the background, as soon as fewer than $jobs jobs run.
begin() {
  if [ "$running" = "$jobs" ]; then
    wait -n
    running=$((running - 1))
  fi
  started=$((started + 1)) running=$((running + 1))
  "$@" &
}

echo "executable: $("$LIO_BIN" -v)"
if [ -z "$stock" ]; then
  echo "The suites run in the executable only."
fi
files=("$folder"/$pattern)
# The suite that takes longest begins first, because otherwise it would run alone at the end.
for i in "${!files[@]}"; do
  case ${files[i]} in
    */reentry_stack_test.lua) files=("${files[i]}" "${files[@]:0:i}" "${files[@]:i+1}") ;;
  esac
done
for file in "${files[@]}"; do
  if ! selected "$file"; then continue; fi
  case $file in
    *_server.lua) ;; # not a suite: another script in the folder starts this server
    *.lua)
      [ -e "$file" ] || continue
      begin in_lio "$file"
      if [ -n "$stock" ]; then begin in_stock "$file"; fi
      ;;
    *.sh) begin run_suite sh "$file" bash ;;
  esac
done
wait

passed=0 failed=0
if [ "$started" = 0 ]; then
  echo "no suite matches $folder/$pattern '$words'"
  failed=1
fi
for ((job = 1; job <= started; job++)); do
  # A job without a result counts as a failure.
  p=0 f=1
  if [ -s "$scratch/$job.count" ]; then read -r p f <"$scratch/$job.count"; fi
  passed=$((passed + p)) failed=$((failed + f))
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
