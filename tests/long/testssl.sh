#!/usr/bin/env bash
# testssl.sh examines `lio serve --tls` with a certificate of `lio cert --authority`. It must find nothing of the severity
# MEDIUM or higher, except that the certificate for development has no list of revoked certificates, and that files get no
# fields such as Content-Security-Policy, which depend on the site. Takes at most 5 minutes.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

lio=${LIO_BIN:-${CARGO_TARGET_DIR:-target}/release/lio}
if ! command -v testssl >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get -qq update </dev/null >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y install testssl.sh </dev/null >/dev/null
  fi
  if ! command -v testssl >/dev/null; then
    echo "testssl.sh: testssl is missing (Debian package: testssl.sh)"
    echo "0 passed, 1 failed"
    exit 1
  fi
fi

scratch=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null; wait 2>/dev/null; rm -rf "$scratch"' EXIT
mkdir "$scratch/site" && echo hello >"$scratch/site/index.html"
"$lio" cert localhost --authority --out "$scratch" >/dev/null || exit 1
"$lio" serve "$scratch/site" --port 0 --cert "$scratch/cert.pem" --key "$scratch/key.pem" >"$scratch/address" 2>&1 &
server=$!
port=
for _ in $(seq 200); do
  port=$(sed -n 's|^lio: serving https://127.0.0.1:\([0-9]*\)/$|\1|p' "$scratch/address")
  [ -n "$port" ] && break
  sleep 0.05
done

passed=0 failed=0
check() {
  if "${@:2}"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: $1"; fi
}

timeout 300 testssl --quiet --color 0 --warnings batch --jsonfile "$scratch/all.json" \
  --add-ca "$scratch/authority.pem" --ip 127.0.0.1 "localhost:$port" >"$scratch/report" 2>&1 </dev/null
check "testssl ends" grep -q '^ Done ' "$scratch/report"
check "testssl has examined the server" [ "$(grep -c '"severity"' "$scratch/all.json")" -gt 100 ]
python3 - "$scratch/all.json" >"$scratch/found" <<'PYTHON'
import json, sys
for one in json.load(open(sys.argv[1])):
    if one["severity"] in ("MEDIUM", "HIGH", "CRITICAL", "FATAL", "WARN"):
        print(one["severity"], one["id"], one["finding"])
PYTHON
check "the list of findings can be read" [ $? -eq 0 ]
cat "$scratch/found"
check "nothing else is found" [ "$(grep -vcE '^[A-Z]+ (cert_revocation|security_headers) ' "$scratch/found")" -eq 0 ]
kill -TERM "$server"
wait "$server"
check "the server ends with exit code 0" [ $? -eq 0 ]
check "the server has logged nothing" [ "$(grep -vc '^lio: serving' "$scratch/address")" -eq 0 ]
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
