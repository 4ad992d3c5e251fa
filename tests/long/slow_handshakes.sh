#!/usr/bin/env bash
# 1,000 connections begin a handshake with TLS and do not end it, while other clients measure their requests, with TLS and
# without: 99 of 100 must take less than 50 ms, and none may fail. The handshakes must cost no task, less than 64 KiB of
# memory each, and end at the time limit. Takes at most 60 s. Prints the figures.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

lio=${LIO_BIN:-${CARGO_TARGET_DIR:-target}/release/lio}
count=1000 limit=12
ulimit -n 4096 || exit 1

scratch=$(mktemp -d)
"$lio" tests/peers/slow_handshakes_server.lua "$limit" >"$scratch/server" 2>&1 &
server=$!
attack=
trap 'kill -KILL $server $attack 2>/dev/null; rm -rf "$scratch"' EXIT

# wait_for FILE PATTERN: waits up to 30 s until the file has a line that matches.
wait_for() {
  for _ in $(seq 600); do
    grep -q "$2" "$1" && return
    sleep 0.05
  done
  return 1
}

wait_for "$scratch/server" '^https:'
read -r secure plain < <(sed -n 's#https://[^:]*:\([0-9]*\)/*[[:space:]]*http://[^:]*:\([0-9]*\)/*#\1 \2#p' "$scratch/server")

passed=0 failed=0
check() {
  if "${@:2}"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: $1"; fi
}

below_50() {
  awk '{ for (i = 1; i < NF; i++) if ($i == "p99" && $(i + 1) < 50) found = 1 } END { exit !found }' "$1"
}

# measure NAME SECONDS: prints the latencies with TLS and without TLS, which are measured at the same time.
measure() {
  timeout $(($2 + 30)) "$lio" tests/peers/latency.lua "$plain" "$2" >"$scratch/plain" &
  local client=$!
  timeout $(($2 + 30)) "$lio" tests/peers/latency.lua "$secure" "$2" tls >"$scratch/secure" 2>/dev/null
  wait "$client"
  for kind in secure plain; do
    echo "$1, $kind: $(cat "$scratch/$kind")"
    check "$1, $kind: no request fails" grep -q ' 0 failed' "$scratch/$kind"
    check "$1, $kind: p99 below 50 ms" below_50 "$scratch/$kind"
  done
}

resident() { awk '/^VmRSS/ { print $2 }' "/proc/$server/status"; }
state() { curl -s --max-time 10 "http://127.0.0.1:$plain/state"; }

measure "no attack" 4
read -r tasks connections < <(state; echo)
before=$(resident)

timeout 50 "$lio" tests/peers/slow_handshakes.lua "$secure" "$count" "$limit" >"$scratch/attack" 2>&1 &
attack=$!
wait_for "$scratch/attack" '^open'
read -r tasks_during connections_during < <(state; echo)
each=$(awk -v a="$(resident)" -v b="$before" -v n="$count" 'BEGIN { printf "%.1f", (a - b) / n }')
echo "$((connections_during - connections)) handshakes, $each KiB each, $((tasks_during - tasks)) tasks"
check "the attack has its $count connections" [ $((connections_during - connections)) -eq "$count" ]
check "a handshake costs no task" [ "$tasks_during" -eq "$tasks" ]
check "a handshake costs less than 64 KiB" awk -v each="$each" 'BEGIN { exit !(each < 64) }'

measure "slow handshakes" 8
wait "$attack"
cat "$scratch/attack"
attack=
check "the server ends all handshakes" grep -q "^ended $count of $count" "$scratch/attack"
check "they end at the time limit" awk -v limit="$limit" \
  '/^ended/ { exit !($6 > limit - 1 && $8 < limit + 3) }' "$scratch/attack"
read -r tasks_after connections_after < <(state; echo)
check "no connection remains" [ "$connections_after" -eq "$connections" ]
check "no task remains" [ "$tasks_after" -eq "$tasks" ]

kill -TERM "$server"
check "the server stops gracefully" timeout 20 tail --pid="$server" -f /dev/null
wait "$server"
check "exit code 0" [ $? -eq 0 ]
check "the log is empty" [ "$(grep -vc '^https:' "$scratch/server")" -eq 0 ]
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
