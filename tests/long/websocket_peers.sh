#!/usr/bin/env bash
# Exchanges messages, pings and close frames, with compression, with the npm package ws on Node.js and the Python package
# websockets, each as client and as server. Both are installed into a temporary folder. Needs node, npm and python3 with
# venv, and the package indexes. Takes about 20 seconds.
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

passed=0 failed=0
# check NAME FILE LINE...: the file must have exactly these lines.
check() {
  local name=$1 file=$2
  shift 2
  if [ "$(cat "$file")" = "$(printf '%s\n' "$@")" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $name"
    diff "$file" <(printf '%s\n' "$@")
  fi
}

# wait_for COMMAND...: waits until the command succeeds, at most 10 seconds.
wait_for() {
  for _ in $(seq 100); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.1
  done
  echo "not in time: $*"
}

"$lio" tests/peers/websocket_echo.lua true >"$scratch/echo" 2>&1 &
processes+=($!)
wait_for grep -q serving "$scratch/echo"
url=$(sed -n 's|^lio: serving http://\(.*\)/$|ws://\1/|p' "$scratch/echo")

# try NAME COMMAND...: runs a peer as client and as server.
try() {
  local name=$1 peer
  shift
  timeout 30 "$@" client "$url" >"$scratch/client" 2>&1
  # A pong may arrive before or after the first message.
  sort "$scratch/client" >"$scratch/sorted"
  check "$name as client" "$scratch/sorted" "close 4001 " "message binary 300000" "message text 6" \
    "open echo permessage-deflate" "pong p"
  timeout 30 "$@" server >"$scratch/server" 2>&1 &
  peer=$!
  wait_for grep -q '^[0-9]' "$scratch/server"
  timeout 30 "$lio" tests/peers/websocket_client.lua "ws://127.0.0.1:$(head -1 "$scratch/server")/" >"$scratch/lio" 2>&1
  wait "$peer"
  sed 1d "$scratch/server" >"$scratch/events"
  check "$name as server" "$scratch/events" "message text 6" "message binary 300000" "close 4001 bye"
  check "client of $name" "$scratch/lio" "open echo permessage-deflate" "message text 6" "message binary 300000" \
    "close 4001"
}

ran=0
if npm install --silent --prefix "$scratch/node" ws >/dev/null 2>&1; then
  export NODE_PATH=$scratch/node/node_modules
  try "Node ws" node tests/peers/websocket_node.js
  ran=1
else
  echo "left out: npm cannot install ws"
fi
if python3 -m venv "$scratch/venv" >/dev/null 2>&1 \
  && timeout 120 "$scratch/venv/bin/python" -m pip install -q websockets >/dev/null 2>&1; then
  try "Python websockets" "$scratch/venv/bin/python" tests/peers/websocket_python.py
  ran=1
else
  echo "left out: pip cannot install websockets"
fi
[ "$ran" = 1 ] || exit 0
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
