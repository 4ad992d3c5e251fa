#!/usr/bin/env bash
# Runs the cases of Autobahn's test suite with lio as server and as client, with each value of the option `compress`.
# The Python package kosoku has the cases; it is installed into a temporary environment. Needs python3 with venv, and
# the package index. Takes about 15 minutes.
# AUTOBAHN_PYTHON: a Python with kosoku. AUTOBAHN_SHORT=1: only with compression, without the groups 9, 12 and 13, whose
# cases have large or very many messages (20 seconds).
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

lio=${LIO_BIN:-${CARGO_TARGET_DIR:-target}/release/lio}
scratch=$(mktemp -d)
processes=()
finish() {
  for process in "${processes[@]}"; do kill "$process" 2>/dev/null; done
  wait 2>/dev/null
  rm -rf "$scratch"
}
trap finish EXIT

leave_out() {
  echo "left out: websocket_autobahn.sh: $1"
  echo "0 passed, 0 failed"
  exit 0
}

python=${AUTOBAHN_PYTHON:-}
if [ -z "$python" ]; then
  python3 -m venv "$scratch/venv" >/dev/null 2>&1 || leave_out "python3 has no venv"
  python=$scratch/venv/bin/python
  timeout 120 "$python" -m pip install -q kosoku==0.1.0 >/dev/null 2>&1 || leave_out "pip cannot install kosoku 0.1.0"
fi
"$python" -c 'import kosoku' 2>/dev/null || leave_out "$python has no package kosoku"

passed=0 failed=0
# count MODE FILE: adds the results in a file with one line for each case.
count() {
  local p f
  p=$(grep -c '^ok ' "$2")
  f=$(grep -c '^not ok ' "$2")
  if [ "$p" -lt 200 ]; then f=$((f + 1)); fi
  echo "$1: $p cases passed, $f failed"
  grep '^not ok ' "$2"
  if [ "$p" -lt 200 ]; then tail -5 "$2"; fi
  passed=$((passed + p)) failed=$((failed + f))
}

modes="true false context"
if [ -n "${AUTOBAHN_SHORT:-}" ]; then modes=true; fi
for compress in $modes; do
  "$lio" tests/peers/websocket_echo.lua $compress >"$scratch/server" 2>&1 &
  processes+=($!)
  for _ in $(seq 100); do
    grep -q serving "$scratch/server" && break
    sleep 0.1
  done
  port=$(sed -n 's|^lio: serving http://127.0.0.1:\([0-9]*\)/$|\1|p' "$scratch/server")
  timeout 600 "$python" tests/peers/autobahn.py client "$port" >"$scratch/cases" 2>&1
  count "server, compress = $compress" "$scratch/cases"

  timeout 600 "$python" tests/peers/autobahn.py server "$scratch/port" >"$scratch/cases" 2>&1 &
  peer=$!
  processes+=("$peer")
  for _ in $(seq 100); do
    [ -s "$scratch/port" ] && break
    sleep 0.1
  done
  timeout 600 "$lio" tests/peers/websocket_echo_client.lua "$(cat "$scratch/port")" $compress || cat "$scratch/cases"
  wait "$peer"
  rm -f "$scratch/port"
  count "client, compress = $compress" "$scratch/cases"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
