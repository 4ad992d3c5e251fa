#!/usr/bin/env bash
# tests/browser/run.mjs uses the clock, the upload form, a directory listing, the debug page, the chat, two other examples
# and, if mdbook is installed, the book in a headless Chromium (Debian's). Needs node, npm and chromium; npm installs
# playwright-core and axe-core in a temporary folder. Takes at most 180 s. Writes screenshots to build/screenshots.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

lio=${LIO_BIN:-${CARGO_TARGET_DIR:-$PWD/target}/release/lio}
stop() {
  echo "browser.sh: $1"
  echo "0 passed, 1 failed"
  exit 1
}
for tool in node npm chromium; do
  command -v "$tool" >/dev/null || stop "$tool is missing (Debian package: ${tool/node/nodejs})"
done

scratch=$(mktemp -d)
shots=$PWD/build/screenshots
mkdir -p "$shots" "$scratch/site/folder" "$scratch/uploads"
pids=()
trap 'kill -KILL "${pids[@]}" 2>/dev/null; rm -rf "$scratch"' EXIT
printf 'what is in it' >"$scratch/site/odd & <name>.txt"
printf 'x' >"$scratch/site/folder/inside.txt"
head -c 5000000 /dev/zero >"$scratch/site/a rather long name of a file that has to be wrapped or cut somewhere.bin"
head -c 100000 /dev/urandom >"$scratch/peer-file.bin"
# The line of the error has a number of two digits, because axe-core checks the contrast of no single character.
printf -- '--\n%.0s' {1..9} >"$scratch/debug.lua"
cat >>"$scratch/debug.lua" <<'LUA'
local app = require("lio.webserver").new { debug = true }
local function inner(value) error("this is <b>no markup</b>: " .. value) end
app:get("/", function() inner "x" end)
app:run(...)
LUA

# A certificate for the chat over wss.
FOLDER=$scratch "$lio" -e 'local cert, key = require "lio.tls".self_signed()
  for name, text in pairs { cert = cert, key = key } do
    local file <close> = assert(io.open(os.getenv "FOLDER" .. "/" .. name .. ".pem", "w"))
    file:write(text)
  end' || stop "no certificate"

(cd "$scratch" && npm init -y && npm install --no-audit --no-fund playwright-core axe-core) >"$scratch/npm" 2>&1 ||
  stop "npm: $(tail -n 3 "$scratch/npm")"

# serve NAME COMMAND...: starts a server and waits until it prints its address. Adds NAME=ADDRESS to $servers.
servers=()
serve() {
  "${@:2}" >"$scratch/$1.log" 2>&1 &
  pids+=($!)
  # Without `disown` the shell would print that the server has ended, after the closing line.
  disown
  local url=
  for _ in $(seq 100); do
    url=$(sed -n 's#.*\(http://[0-9.:]*/\).*#\1#p' "$scratch/$1.log" | head -n 1)
    [ -n "$url" ] && servers+=("$1=$url") && return
    sleep 0.05
  done
  stop "$1 does not serve: $(cat "$scratch/$1.log")"
}
serve clock "$lio" examples/clock.lua 0
serve upload "$lio" examples/upload.lua 0 "$scratch/uploads"
serve listing "$lio" serve "$scratch/site" --list --port 0
serve debug "$lio" "$scratch/debug.lua" 127.0.0.1:0
serve primes "$lio" examples/multi/main.lua 0 2
serve chat "$lio" examples/websocket/chat/main.lua 0
serve webservice "$lio" examples/webservice/main.lua 0
if command -v mdbook >/dev/null; then
  make book >"$scratch/mdbook" 2>&1 || stop "make book: $(tail -n 3 "$scratch/mdbook")"
  serve book "$lio" serve build/book --port 0
else
  echo "left out the book: mdbook is missing (cargo install mdbook)"
fi

run=$PWD/tests/browser/run.mjs
chat="$(realpath "$lio") $PWD/examples/websocket/chat/main.lua"
(cd "$scratch" && LIO_CHAT="$chat" timeout 180 node "$run" "$(command -v chromium)" "$scratch/profile" \
  "$scratch/peer-file.bin" "$shots" "${servers[@]}") >"$scratch/out" 2>&1
code=$?
cat "$scratch/out"
passed=$(grep -c '^ok - ' "$scratch/out")
failed=$(grep -c '^not ok - ' "$scratch/out")
if [ "$code" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
