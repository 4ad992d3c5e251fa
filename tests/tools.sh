#!/bin/sh
# Lists the tools that the tests need and that this machine lacks, with the Debian package of each tool.
# Called by `make lint` and `make test` before they start. As root on Debian it installs them;
# otherwise it exits with 1, so that no test is skipped silently.
set -u

missing=
packages=

# need WHAT PACKAGE TEST...: WHAT is missing unless the command TEST succeeds.
need() {
  what=$1 package=$2
  shift 2
  if "$@" >/dev/null 2>&1; then return; fi
  missing="$missing
  $what (Debian package: $package)"
  packages="$packages $package"
}

check() {
  missing= packages=
  need cc gcc command -v cc
  need 'the C library headers' libc6-dev sh -c 'echo "#include <stdio.h>" | cc -E -'
  need "${LUA54:-lua5.4}" lua5.4 command -v "${LUA54:-lua5.4}"
  need luac5.4 lua5.4 command -v luac5.4
  need luacheck lua-check command -v luacheck
  need luarocks luarocks command -v luarocks
  need 'lua.h of Lua 5.4, which luarocks requires' liblua5.4-dev \
    sh -c 'ls /usr/include/lua5.4/lua.h || ls /usr/local/include/lua.h'
  need timeout coreutils command -v timeout
  need script bsdutils command -v script
  need mandoc mandoc command -v mandoc
  need strace strace command -v strace
  need curl curl command -v curl
  need 'ip (tests/chaos)' iproute2 command -v ip
  need 'unshare and prlimit (tests/chaos)' util-linux sh -c 'command -v unshare && command -v prlimit'
  need openssl openssl command -v openssl
  need 'a python3 with h11 and requests' 'python3-h11 python3-requests' \
    sh -c 'for python in "${PYTHON:-python3}" /usr/bin/python3; do
      "$python" -c "import h11, requests" && exit
    done; exit 1'
}

rust_is_complete() {
  cargo --version && cargo fmt --version && cargo clippy --version
}

if ! rust_is_complete >/dev/null 2>&1; then
  echo "missing: cargo with rustfmt and clippy, Rust 1.88 or newer (rustup installs them;" >&2
  echo "  Debian's packages cargo, rustfmt and rust-clippy too, if they are new enough)" >&2
  exit 1
fi

check
if [ -n "$packages" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing:$packages"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq -o DPkg::Lock::Timeout=120 update </dev/null
  # shellcheck disable=SC2086
  apt-get -qq -y --no-install-recommends -o DPkg::Lock::Timeout=120 install $packages </dev/null
  check
fi
if [ -n "$missing" ]; then
  echo "missing:$missing" >&2
  exit 1
fi
