#!/usr/bin/env bash
# Downloads a file of 1 GiB from `lio serve`: the server's memory must not grow, `curl -C -` must resume an aborted
# download correctly, and aborted downloads must leave no descriptor open. Called by tests/run.sh --long, or by hand:
#   [LIO_BIN=path/to/lio] tests/long/static_big.sh
# Needs curl, cmp and 1 GiB of space in the temporary folder. The last line is "N passed, M failed".
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

lio=${LIO_BIN:-${CARGO_TARGET_DIR:-target}/release/lio}
dir=$(mktemp -d)
pid=
trap 'if [ -n "$pid" ]; then kill "$pid" 2>/dev/null; fi; rm -rf "$dir"' EXIT
passed=0 failed=0

check() { # check WHAT COMMAND...
  local what=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
    echo "ok - $what"
  else
    failed=$((failed + 1))
    echo "FAILED: $what"
  fi
}
rss() { awk '/VmRSS/ { print $2 }' "/proc/$pid/status"; }
peak() { awk '/VmHWM/ { print $2 }' "/proc/$pid/status"; }
descriptors() { ls "/proc/$pid/fd" | wc -l; }

mkdir "$dir/site"
# A sparse file with random bytes at several places, so that wrong ranges are detected.
truncate -s 1G "$dir/site/big.bin"
for at in 0 100 333 512 700 900 1023; do
  head -c 65536 /dev/urandom | dd of="$dir/site/big.bin" bs=1M seek=$at conv=notrunc status=none
done
echo home >"$dir/site/index.html"

"$lio" serve "$dir/site" --port 0 >"$dir/out" 2>&1 &
pid=$!
for _ in $(seq 100); do
  url=$(sed -n 's/^lio: serving //p' "$dir/out")
  [ -n "$url" ] && break
  sleep 0.05
done
curl -fsS -o /dev/null "$url"
before=$(rss) open_before=$(descriptors)

check "a GiB arrives unchanged" cmp <(curl -fsS "${url}big.bin") "$dir/site/big.bin"
echo "memory: $before KiB before, $(rss) KiB after, $(peak) KiB at most"
check "memory grows by less than 4 MiB" test $(($(peak) - before)) -lt 4096

# The download is aborted five times and then completed.
for seconds in 0.2 0.3 0.2 0.4 0.2; do
  curl -sS -C - --limit-rate 200M --max-time "$seconds" -o "$dir/got" "${url}big.bin" 2>/dev/null
done
had=$(stat -c %s "$dir/got")
check "transfers were aborted" test "$had" -gt 0 -a "$had" -lt $((1 << 30))
curl -fsS -C - -o "$dir/got" "${url}big.bin"
echo "resumed at $had bytes"
check "the download by ranges equals the file" cmp "$dir/got" "$dir/site/big.bin"

for _ in $(seq 30); do curl -sS --limit-rate 1M --max-time 0.05 -o /dev/null "${url}big.bin" 2>/dev/null; done
curl -fsS -o /dev/null "$url"
for _ in $(seq 100); do
  [ "$(descriptors)" -le "$open_before" ] && break
  sleep 0.05
done
check "aborted downloads leave no descriptor open" test "$(descriptors)" -le "$open_before"
echo "memory at the end: $(rss) KiB, $(peak) KiB at most"
check "memory grew by less than 4 MiB in all" test $(($(peak) - before)) -lt 4096

kill -TERM "$pid"
wait "$pid"
check "exit code 0" test $? = 0
pid=
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
