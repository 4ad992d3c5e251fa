#!/usr/bin/env bash
# slowhttptest keeps 1,000 connections open, first with slow heads, then with slow bodies, then with slow reading. In
# each mode a second client measures its requests: 99 of 100 must take less than 50 ms, and none may fail. Takes at
# most 100 s. Prints the results without an attack, and then the results of each mode.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

lio=${LIO_BIN:-${CARGO_TARGET_DIR:-target}/release/lio}
if ! command -v slowhttptest >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get -qq update </dev/null >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y install slowhttptest </dev/null >/dev/null
  fi
  if ! command -v slowhttptest >/dev/null; then
    echo "slow_clients.sh: slowhttptest is missing (Debian package: slowhttptest)"
    echo "0 passed, 1 failed"
    exit 1
  fi
fi
ulimit -n 4096 || exit 1

scratch=$(mktemp -d)
"$lio" tests/peers/server.lua >"$scratch/server" 2>&1 &
server=$!
attack=
trap 'kill -KILL $server $attack 2>/dev/null; rm -rf "$scratch"' EXIT
for _ in $(seq 100); do
  port=$(sed -n 's#.*http://127.0.0.1:\([0-9]*\)/.*#\1#p' "$scratch/server")
  [ -n "$port" ] && break
  sleep 0.05
done

passed=0 failed=0
check() {
  if "${@:2}"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: $1"; fi
}

# measure NAME SECONDS: prints the results of the second client, and sets $figures.
measure() {
  figures=$(timeout $(($2 + 30)) "$lio" tests/peers/latency.lua "$port" "$2")
  echo "$1: $figures"
  check "$1: no request fails" grep -q ' 0 failed' <<<"$figures"
}

below_50() {
  local p99
  p99=$(sed -n 's/.* p99 \([0-9.]*\) ms.*/\1/p' <<<"$figures")
  awk -v p99="${p99:-1000}" 'BEGIN { exit !(p99 < 50) }'
}

# mode NAME SECONDS OPTION...: runs slowhttptest with 1,000 connections and the second client at the same time, for
# SECONDS.
mode() {
  local name=$1 seconds=$2 most=0 open
  shift 2
  slowhttptest -c 1000 -r 500 -l "$seconds" -p 5 "$@" >"$scratch/attack" 2>&1 </dev/null &
  attack=$!
  (
    for _ in $(seq $((seconds * 4))); do
      open=$(find "/proc/$server/fd" -maxdepth 1 -lname 'socket:*' 2>/dev/null | wc -l)
      [ "$open" -gt "$most" ] && most=$open && echo "$most" >"$scratch/most"
      sleep 0.25
    done
  ) &
  local watcher=$!
  measure "$name" "$seconds"
  wait "$watcher"
  most=$(cat "$scratch/most")
  rm -f "$scratch/most"
  echo "$name: at most $most connections at once"
  check "$name: the attack had its 1,000 connections" [ "$most" -ge 1000 ]
  check "$name: p99 below 50 ms" below_50
  kill "$attack" 2>/dev/null
  wait "$attack" 2>/dev/null
  attack=
}

measure "no attack" 5
url=http://127.0.0.1:$port
mode "slow heads" 20 -H -i 2 -t GET -x 24 -u "$url/"
mode "slow bodies" 20 -B -i 2 -t POST -s 8192 -x 10 -u "$url/body"
mode "slow reading" 20 -X -n 1 -z 32 -w 512 -y 1024 -k 3 -u "$url/large"

kill -TERM "$server"
check "the server stops gracefully" timeout 20 tail --pid="$server" -f /dev/null
wait "$server"
check "exit code 0" [ $? -eq 0 ]
check "the log has no further lines" [ "$(grep -vc '^lio: serving' "$scratch/server")" -eq 0 ]
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
