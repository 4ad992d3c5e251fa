#!/usr/bin/env bash
# One round of faults: tests/chaos/run.sh [--seed N] [--seconds N] [--sabotage NAME] [--keep FOLDER] [--loopback].
# Needs root, network namespaces (iproute2), prlimit (util-linux), a C compiler and x86-64 Linux. If a namespace cannot
# be created, fails; --loopback runs everything in one namespace. The processes run in new PID and mount namespaces, so
# nothing remains when this script ends, even by SIGKILL. See README.md.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lio=$(realpath "${LIO_BIN:-${CARGO_TARGET_DIR:-$here/../../target}/release/lio}")

fail() {
  echo "chaos: $1"
  echo "0 passed, 1 failed"
  exit 1
}

# The outer part creates the folder of the run, and removes it when all processes have ended.
if [ -z "${CHAOS_FOLDER:-}" ]; then
  [ "$(id -u)" = 0 ] || fail "needs root: network namespaces, tmpfs and prlimit are refused to other users"
  [ "$(uname -sm)" = "Linux x86_64" ] || fail "needs Linux on x86-64"
  for tool in ip unshare prlimit mount "${CC:-cc}"; do
    command -v "$tool" >/dev/null || fail "$tool is missing"
  done
  [ -x "$lio" ] || fail "no executable at $lio: run make build"
  problem=$(unshare --mount --pid --fork true 2>&1) || fail "PID and mount namespaces cannot be created: $problem"
  CHAOS_FOLDER=$(mktemp -d)
  export CHAOS_FOLDER
  unshare --mount --propagation private --pid --fork --kill-child --mount-proc "$0" "$@" &
  trap 'rm -rf "$CHAOS_FOLDER"' EXIT
  trap 'kill $!' TERM INT
  wait $!
  exit
fi

seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
seconds=15 sabotage=none keep='' spaces=chaos
while [ $# -gt 0 ]; do
  case $1 in
    --seed) seed=$2 && shift 2 ;;
    --seconds) seconds=$2 && shift 2 ;;
    --sabotage) sabotage=$2 && shift 2 ;;
    --keep) keep=$2 && shift 2 ;;
    --loopback) spaces='' && shift ;;
    *) fail "unknown option $1" ;;
  esac
done

folder=$CHAOS_FOLDER
trap '[ -n "$keep" ] && mkdir -p "$keep" && cp -a "$folder/." "$keep"' EXIT
mkdir "$folder/uploads"
mount -t tmpfs -o size=1g chaos "$folder/uploads" || fail "a tmpfs cannot be mounted"
"${CC:-cc}" -O1 -Wall -fPIC -shared -o "$folder/faults.so" "$here/faults.c" -ldl -lpthread || fail "faults.c does not compile"

# client 10.77.1.2 --- 10.77.1.1 proxy 10.77.2.1 --- 10.77.2.2 server and upstream. /run/netns is private here, because
# the mount namespace is; so the names cannot collide with those of other rounds.
enter=()
if [ -n "$spaces" ]; then
  mkdir -p /run/netns && mount -t tmpfs chaos /run/netns || fail "/run/netns cannot be mounted"
  {
    for one in c p s; do ip netns add "$spaces$one" && ip -n "$spaces$one" link set lo up || exit 1; done
    ip -n "${spaces}p" link add toclient type veth peer name eth0 netns "${spaces}c" &&
      ip -n "${spaces}p" link add toserver type veth peer name eth0 netns "${spaces}s" &&
      ip -n "${spaces}p" addr add 10.77.1.1/24 dev toclient && ip -n "${spaces}c" addr add 10.77.1.2/24 dev eth0 &&
      ip -n "${spaces}p" addr add 10.77.2.1/24 dev toserver && ip -n "${spaces}s" addr add 10.77.2.2/24 dev eth0 &&
      ip -n "${spaces}p" link set toclient up && ip -n "${spaces}c" link set eth0 up &&
      ip -n "${spaces}p" link set toserver up && ip -n "${spaces}s" link set eth0 up
  } >"$folder/ip.log" 2>&1 || fail "network namespaces cannot be created: $(tail -n 1 "$folder/ip.log"); try --loopback"
  enter=(ip netns exec "${spaces}s")
fi
ulimit -n 4096
unset LUA_PATH LUA_CPATH
"${enter[@]}" "$lio" "$here/director.lua" "lio=$lio" "folder=$folder" "library=$folder/faults.so" "namespaces=$spaces" \
  "seed=$seed" "seconds=$seconds" "sabotage=$sabotage" "timed=${CHAOS_TIMED:-0}"
