#!/usr/bin/env bash
# 200 clients connect at once to a server with 64 descriptors: all clients are answered, the server uses almost no CPU
# time, and it logs only once why it pauses accepting. Takes at most 60 s.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

lio=${LIO_BIN:-${CARGO_TARGET_DIR:-target}/release/lio}
log=$(mktemp)
(ulimit -n 64 && exec "$lio" tests/long/torture_server.lua) >"$log" 2>&1 &
server=$!
trap 'kill -KILL $server 2>/dev/null; rm -f "$log"' EXIT
for _ in $(seq 100); do
  port=$(sed -n 's#.*http://127.0.0.1:\([0-9]*\)/.*#\1#p' "$log")
  [ -n "$port" ] && break
  sleep 0.05
done

passed=0 failed=0
check() {
  if "${@:2}"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: $1"; fi
}
answered=$(timeout 60 "$lio" -e "
  local loop, net = require 'lio.loop', require 'lio.net'
  local answered = 0
  loop.run(function()
    for _ = 1, 200 do
      loop.fork(function()
        local c = assert(net.connect('127.0.0.1', $port))
        c:timeout(30, 30)
        assert(c:send('GET / HTTP/1.1\r\nHost: t\r\n\r\n'))
        if c:recv('until', 'Hello, World!') then answered = answered + 1 end
        loop.sleep(0.5)
        c:close()
      end)
    end
  end)
  print(answered)")
ticks=$(awk '{ print $14 + $15 }' "/proc/$server/stat")
echo "200 clients, 64 descriptors: $answered answered, $((ticks * 10)) ms of CPU"
check "every client is answered" [ "$answered" = 200 ]
check "less than a second of CPU" [ "$ticks" -lt 100 ]
check "the log has the error once" [ "$(grep -c 'Too many open files' "$log")" -eq 1 ]
kill -TERM "$server"
wait "$server"
check "exit code 0" [ $? -eq 0 ]
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
