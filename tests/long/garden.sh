#!/usr/bin/env bash
# The garden of servers: the byte streams of tests/peers/garden/corpus.txt are sent to lio and to nginx, HAProxy, h2o,
# Caddy, Apache, h11, hyper and Node, and what each has read is compared, as are the responses that lio's client and three
# others have read from the bytes of responses.txt. Then attempts of request smuggling go through
# pairs of a proxy and a server, with lio on either side; and random mutations of the byte streams go the same ways for
# two minutes. tests/peers/garden/README.md describes the outcomes. Needs the packages nginx-light, haproxy, h2o, caddy,
# apache2-bin and nodejs, cargo, python3 with venv, and the package indexes of Python and Rust. A missing server counts as
# a failure. Takes about four minutes.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

LIO_BIN=$(realpath "${LIO_BIN:-${CARGO_TARGET_DIR:-target}/release/lio}")
export LIO_BIN
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  missing=()
  for pair in nginx:nginx-light haproxy:haproxy h2o:h2o caddy:caddy apache2:apache2-bin node:nodejs; do
    PATH=$PATH:/usr/sbin command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
  done
  if [ "${#missing[@]}" -gt 0 ]; then
    apt-get -qq update </dev/null >/dev/null
    # The packages must not start their servers, which would listen on port 80.
    DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -qq -y --no-install-recommends install "${missing[@]}" </dev/null \
      >/dev/null
  fi
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python=python3
if python3 -m venv "$scratch/venv" >/dev/null 2>&1 \
  && timeout 120 "$scratch/venv/bin/python" -m pip install -q h11 >/dev/null 2>&1; then
  python=$scratch/venv/bin/python
else
  echo "pip cannot install h11 into a temporary environment"
fi

passed=0 failed=0
# part FILE: runs a program of the garden, and adds its numbers.
part() {
  local closing
  timeout 400 "$python" -B "tests/peers/garden/$1" "${@:2}" >"$scratch/out" 2>&1
  closing=$(tail -n 1 "$scratch/out" | grep -E '^[0-9]+ passed, [0-9]+ failed$')
  if [ -n "$closing" ]; then
    passed=$((passed + ${closing%% *}))
    closing=${closing#*, }
    failed=$((failed + ${closing%% *}))
    sed '$d' "$scratch/out"
  else
    failed=$((failed + 1))
    cat "$scratch/out"
    echo "FAILED: $1 did not end, or crashed"
  fi
}
part origins.py ${GARDEN_TABLE:+--table "$GARDEN_TABLE"} ${GARDEN_DETAILS:+--details "$GARDEN_DETAILS"}
part responses.py
part pairs.py
part pairs.py --mutations 200
part mutate.py 60
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
