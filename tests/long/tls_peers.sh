#!/usr/bin/env bash
# tlslite-ng and sslyze, which pip installs into a temporary folder, examine a web server with TLS that has a certificate
# of each kind: tests/peers/tls_server.lua. Needs python3 with venv, openssl, and access to PyPI. Takes at most 5 minutes.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

lio=${LIO_BIN:-${CARGO_TARGET_DIR:-target}/release/lio}
scratch=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null; wait 2>/dev/null; rm -rf "$scratch"' EXIT
if ! python3 -m venv "$scratch/venv" || ! "$scratch/venv/bin/pip" install -q tlslite-ng sslyze; then
  echo "tls_peers.sh: pip cannot install tlslite-ng and sslyze"
  echo "0 passed, 1 failed"
  exit 1
fi
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$scratch/rsa.key" -out "$scratch/rsa.pem" -days 9 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost 2>/dev/null
"$lio" tests/peers/tls_server.lua "$scratch" >"$scratch/address" 2>&1 &
server=$!
port=
for _ in $(seq 200); do
  port=$(sed -n 's|^lio: serving https://127.0.0.1:\([0-9]*\)/$|\1|p' "$scratch/address")
  [ -n "$port" ] && break
  sleep 0.05
done
timeout 240 "$scratch/venv/bin/python" -B tests/peers/tls_peer.py "$port" "$scratch/ca.pem"
