#!/usr/bin/env bash
# Sends a million requests of all kinds, including malformed, truncated and aborted requests: every valid request must
# be answered, every malformed request must be refused, and no resource may leak. bench/torture/main.rs describes the
# requests. Sending them takes at most 400 s.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

lio=${LIO_BIN:-${CARGO_TARGET_DIR:-target}/release/lio}
torture=$(dirname "$lio")/examples/torture
if [ ! -x "$torture" ]; then
  echo "torture.sh: $torture is missing (cargo build --release --examples)"
  echo "0 passed, 1 failed"
  exit 1
fi

log=$(mktemp)
"$lio" tests/long/torture_server.lua >"$log" 2>&1 &
server=$!
trap 'kill -KILL $server 2>/dev/null; rm -f "$log"' EXIT
for _ in $(seq 100); do
  address=$(sed -n 's#.*http://\([0-9.:]*\)/.*#\1#p' "$log")
  [ -n "$address" ] && break
  sleep 0.05
done

passed=0 failed=0
check() {
  if "${@:2}"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: $1"; fi
}
check "all requests have the correct results" timeout 420 "$torture" "$address" \
  --requests "${LIO_TORTURE_REQUESTS:-1000000}" --pid "$server" --seconds 400
kill -TERM "$server"
check "the server stops gracefully" timeout 20 tail --pid="$server" -f /dev/null
wait "$server"
check "exit code 0" [ $? -eq 0 ]
check "the log has no further lines" [ "$(grep -vc '^lio: serving' "$log")" -eq 0 ]
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
