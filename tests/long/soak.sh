#!/usr/bin/env bash
# A server at 70 % of its capacity while connections, services, uploads and streams begin and end, then an idle server
# after a burst; see tests/soak/README.md. Afterwards every kind of sabotage, which a check must report.
# LIO_SOAK_SECONDS=1800 bash tests/long/soak.sh: seconds of load (150). Without sabotage if LIO_SOAK_SABOTAGE is empty.
# Writes the samples and their plot to the folder LIO_SOAK_OUT (build/soak).
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

run=tests/soak/run.sh passed=0 failed=0
seconds=${LIO_SOAK_SECONDS:-150} out=${LIO_SOAK_OUT:-build/soak}
sabotages=${LIO_SOAK_SABOTAGE-wrong gap answer stuck forget service descriptor task timer thread memory hoard}
mkdir -p "$out" || exit 1

# add STATUS: adds the numbers of the last line of the file $out/log.
add() {
  local p=0 f=1
  read -r p _ f _ <<<"$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$out/log" | tail -n 1)"
  passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1}))
  if [ "$1" != 0 ] && [ "${f:-1}" = 0 ]; then failed=$((failed + 1)); fi
}

timeout -k 5 $((seconds + 300)) "$run" --seconds "$seconds" --tsv "$out/soak.tsv" --svg "$out/soak.svg" 2>&1 |
  tee "$out/log"
add "${PIPESTATUS[0]}"

# A sabotage is reported by a line that contains its words.
declare -A words=(
  [wrong]='another content' [gap]='event [0-9]* is|another' [answer]='operations failed' [stuck]='does not come to rest'
  [forget]='the journal has' [service]='after the load: services: ' [descriptor]='after the load: descriptors: '
  [task]='after the load: tasks: ' [timer]='after the load: timers: ' [thread]='after the load: threads: '
  [memory]='resident memory grew' [hoard]='KiB are resident .* after the burst'
)
for sabotage in $sabotages; do
  timeout -k 5 120 "$run" --seconds 8 --sabotage "$sabotage" >"$out/log" 2>&1
  if grep -qE "^FAILED: .*(${words[$sabotage]})" "$out/log"; then
    passed=$((passed + 1))
    echo "sabotage $sabotage: reported"
  else
    failed=$((failed + 1))
    echo "FAILED: sabotage $sabotage: not reported"
    cat "$out/log"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
