#!/usr/bin/env bash
# Builds all fuzzers of fuzz/ and runs each for the same time, two at a time (LIO_TEST_JOBS), from the seeds and from what
# earlier runs have found. Prints, for each fuzzer, the inputs tried, the seconds, the CPU time, and the coverage: the
# number of places in the code that were reached. A failing input is kept in fuzz/artifacts.
#   bash tests/long/fuzz.sh [WORD...]          only fuzzers whose names contain one of the words
#   bash tests/long/fuzz.sh --build            only builds the fuzzers
#   LIO_FUZZ_SECONDS=20 bash tests/long/fuzz.sh       20 seconds for each fuzzer
#   LIO_FUZZ_SEED=1 bash tests/long/fuzz.sh           the same random choices in each run with the same corpus
# By default, all runs together end within the time limit of `make test-long`. Needs a C++ compiler.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$scratch"' EXIT
if ! make --no-print-directory fuzzers >"$scratch/build" 2>&1; then
  tail -n 40 "$scratch/build"
  echo "0 passed, 1 failed"
  exit 1
fi
echo "built in $SECONDS s"
[ "${1:-}" != --build ] || exit 0

names=()
for file in fuzz/fuzz_targets/*.rs; do
  name=$(basename "$file" .rs)
  [ $# = 0 ] && names+=("$name")
  for word in "$@"; do
    case $name in *"$word"*) names+=("$name") && break ;; esac
  done
done
jobs=${LIO_TEST_JOBS:-2}
rounds=$(((${#names[@]} + jobs - 1) / jobs))
# A fuzzer reads its inputs before its time begins and prints its figures after it has ended.
duration=${LIO_FUZZ_SECONDS:-$(((${LIO_TEST_SECONDS:-900} - SECONDS - 30) / (rounds > 0 ? rounds : 1) - 10))}
if [ "$duration" -lt 1 ]; then
  echo "no time is left for ${#names[@]} fuzzers"
  echo "0 passed, 1 failed"
  exit 1
fi

# fuzz NAME: runs a fuzzer and prints its figures. Succeeds if the fuzzer has found nothing.
fuzz() {
  local name=$1 log=$scratch/$1 status inputs coverage TIMEFORMAT='%U %S'
  {
    time bash fuzz/run.sh "$name" "$duration" -print_final_stats=1 -seed="${LIO_FUZZ_SEED:-0}" >"$log" 2>&1 </dev/null
  } 2>"$log.time"
  status=$?
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  if [ "$status" = 0 ] && [ "${inputs:-0}" -gt 0 ]; then
    printf '%-20s %10d inputs %5d s %5.0f s of CPU time %6d places\n' "$name" "$inputs" "$duration" \
      "$(awk 'END { print $1 + $2 }' "$log.time")" "${coverage:-0}"
    return 0
  fi
  printf '%-20s FAILED (exit code %d)\n' "$name" "$status"
  grep -a -v '^#' "$log" | tail -n 40 | sed 's/^/    /'
  return 1
}

passed=0 failed=0 running=0
# one: waits until a fuzzer ends, and counts it.
one() {
  if wait -n; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  running=$((running - 1))
}
for name in "${names[@]}"; do
  [ "$running" -lt "$jobs" ] || one
  fuzz "$name" &
  running=$((running + 1))
done
while [ "$running" -gt 0 ]; do one; done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
