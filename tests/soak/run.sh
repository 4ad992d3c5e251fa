#!/usr/bin/env bash
# One soak: tests/soak/run.sh [--seconds N] [--seed N] [--sabotage NAME] [--tsv FILE] [--svg FILE]. Needs Linux, and
# unshare (util-linux) as root or with user namespaces: the processes run in new PID and mount namespaces, and their
# files are on a tmpfs there, so nothing remains when this script ends, even by SIGKILL. See README.md.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

fail() {
  echo "soak: $1"
  echo "0 passed, 1 failed"
  exit 1
}

if [ -z "${SOAK_INSIDE:-}" ]; then
  export SOAK_INSIDE=1 LIO_BIN
  LIO_BIN=$(realpath "${LIO_BIN:-${CARGO_TARGET_DIR:-$here/../../target}/release/lio}")
  [ -x "$LIO_BIN" ] || fail "no executable at $LIO_BIN: run make build"
  enter=(unshare --mount --propagation private --pid --fork --kill-child --mount-proc)
  if [ "$(id -u)" != 0 ]; then enter+=(--user --map-root-user); fi
  problem=$("${enter[@]}" true 2>&1) || fail "PID and mount namespaces cannot be created: $problem"
  exec "${enter[@]}" "$0" "$@"
fi

seconds=60 seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ') sabotage=none tsv='' svg=''
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=$2 && shift 2 ;;
    --seed) seed=$2 && shift 2 ;;
    --sabotage) sabotage=$2 && shift 2 ;;
    --tsv) tsv=$(realpath -m "$2") && shift 2 ;;
    --svg) svg=$(realpath -m "$2") && shift 2 ;;
    *) fail "unknown option $1" ;;
  esac
done

# A folder that holds nothing that this run needs. The tmpfs is visible only in this mount namespace.
for folder in /media /mnt /srv ''; do
  case $here:$LIO_BIN:$tsv:$svg in *"$folder"/*) ;; *) [ -d "$folder" ] && break ;; esac
done
mount -t tmpfs -o size=1g soak "$folder" || fail "a tmpfs cannot be mounted"
mkdir "$folder/uploads"
ulimit -n 8192 || fail "8192 descriptors are refused"
unset LUA_PATH LUA_CPATH LUA_INIT
"$LIO_BIN" "$here/soak.lua" "lio=$LIO_BIN" "folder=$folder" "seconds=$seconds" "seed=$seed" "sabotage=$sabotage" \
  "tsv=$tsv" "svg=${svg:-${tsv%.tsv}.svg}"
