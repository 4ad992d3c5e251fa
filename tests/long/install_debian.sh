#!/usr/bin/env bash
# Installs lio into a clean Debian in each of the ways of docs/install.md, uses it there, and removes it: the Debian
# package, the release tarball, `make install`, LuaRocks, and the last stage of the Dockerfile. Needs root, debootstrap,
# luarocks, cargo-deb, and Debian's package archive. LIO_DEBIAN is the folder of the clean system, which is created if it
# does not exist (build/debian by default); the script changes only a copy. The last line is "N passed, M failed".
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL

base=${LIO_DEBIAN:-$PWD/build/debian}
packages="lua5.4 luarocks man-db bash-completion zsh fish"
passed=0 failed=0

stop() {
  echo "install_debian.sh: $1"
  echo "$passed passed, $((failed + 1)) failed"
  exit 1
}
[ "$(id -u)" = 0 ] || stop "only root can create a Debian system"
for tool in debootstrap luarocks; do
  command -v "$tool" >/dev/null || stop "$tool is missing (Debian package: $tool)"
done
cargo deb --version >/dev/null 2>&1 || stop "cargo-deb is missing (cargo install cargo-deb)"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ ! -e "$base/usr/bin/fish" ]; then
  rm -rf "$base"
  mkdir -p "$base"
  debootstrap --variant=minbase --include=ca-certificates bookworm "$base" >"$scratch/log" 2>&1 ||
    stop "debootstrap: $(tail -n 3 "$scratch/log")"
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive chroot "$base" \
    apt-get -qq -y --no-install-recommends install $packages >"$scratch/log" 2>&1 </dev/null ||
    stop "apt-get: $(tail -n 3 "$scratch/log")"
fi
system=$scratch/debian
cp -a --reflink=auto "$base" "$system" || stop "no space for a copy of $base"

# inside COMMAND...: runs a command in the system, with the environment of a login.
inside() {
  env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LANG=C.UTF-8 chroot "$system" "$@"
}

# check NAME COMMAND...: the command must succeed.
check() {
  local name=$1 output
  shift
  if output=$("$@" 2>&1); then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "not ok $name: $*"
    printf '%s\n' "$output" | tail -n 30
  fi
}

# same TEXT COMMAND...: the command must print exactly this text.
same() {
  local want=$1 got
  shift
  got=$("$@" 2>&1)
  [ "$got" = "$want" ] || { echo "expected '$want', got '$got'" && return 1; }
}

# files [FIND-EXPRESSION]: lists the files of the system, except for temporary files, caches and lists of packages.
files() {
  (cd "$system" && find . \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./var/cache \
    -o -path ./var/log -o -path ./root -o -path './var/lib/dpkg/*' \) -prune -o "${@:--true}" -printf '%p %y\n' | sort)
}

# The same files as before the installation, in $scratch/before.
unchanged() {
  files "$@" >"$scratch/after"
  diff "$scratch/before" "$scratch/after"
}

cat >"$system/tmp/serve.lua" <<'LUA'
-- Serves and requests a page in one process.
local http, loop, web = require "lio.http.client", require "lio.loop", require "lio.webserver"
loop.run(function()
  local app = web.new()
  app:get("/", function() return "served" end)
  local server = assert(app:listen(0))
  print(assert(http.get(server.url)):text())
  loop.stop()
end)
LUA

works_as_executable() {
  check "$1: lio serves" same served inside lio /tmp/serve.lua
}
works_as_module() {
  check "$1: a stock Lua serves" same served inside lua5.4 /tmp/serve.lua
  check "$1: ltask is found first" same function inside lua5.4 -e 'print(type(require "ltask.bootstrap".init))'
}
# has_documents NAME PREFIX
has_documents() {
  check "$1: definitions" test -s "$system$2/share/lio/meta/lio.net.lua"
  check "$1: the manual page" inside sh -c "man -w lio | grep -qE '^$2/(share/)?man/'"
  check "$1: completion in bash" same "complete -o filenames -F _lio lio" \
    inside bash -c 'source /usr/share/bash-completion/bash_completion; _completion_loader lio; complete -p lio'
  # shellcheck disable=SC2016
  check "$1: completion in zsh" same _lio inside zsh -fc 'autoload -Uz compinit; compinit -D; print $_comps[lio]'
  # Without XDG_DATA_DIRS, fish searches only /usr/share.
  check "$1: completion in fish" inside env XDG_DATA_DIRS="$2/share" fish -c 'complete -C "lio ser" | grep -q ^serve'
}

# The Debian package.
check "make deb" make deb
package=$(ls -t "${CARGO_TARGET_DIR:-target}"/debian/lio_*.deb | head -n 1)
if command -v lintian >/dev/null; then
  check "lintian" lintian --allow-root --fail-on error "$package"
else
  echo "left out lintian: it is missing (Debian package: lintian)"
fi
files >"$scratch/before"
cp "$package" "$system/tmp/lio.deb"
check "dpkg -i" inside dpkg -i /tmp/lio.deb
works_as_executable deb
works_as_module deb
has_documents deb /usr
check "dpkg --verify" same "" inside dpkg --verify lio
check "the copyright" grep -q 'lio contributors' "$system/usr/share/doc/lio/copyright"
check "dpkg -r" inside dpkg -r lio
check "dpkg -r leaves nothing" unchanged
check "dpkg -r leaves no record" same "" inside sh -c 'dpkg-query -W lio 2>/dev/null'

# The release tarball.
check "make dist" make dist DIST="$scratch"
files ! -type d >"$scratch/before"
mkdir "$system/root/release"
tar -C "$system/root/release" --strip-components=1 -xzf "$scratch"/lio-*.tar.gz
check "install.sh" inside /root/release/install.sh
works_as_executable tarball
works_as_module tarball
has_documents tarball /usr/local
check "install.sh --uninstall" inside /root/release/install.sh --uninstall
check "install.sh --uninstall leaves nothing" unchanged ! -type d
rm -rf "$system/root/release"

# make install
check "make install" make install DESTDIR="$system" PREFIX=/usr/local
works_as_executable "make install"
works_as_module "make install"
has_documents "make install" /usr/local
check "make uninstall" make uninstall DESTDIR="$system" PREFIX=/usr/local
check "make uninstall leaves nothing" unchanged ! -type d

# LuaRocks: a rock that is built here and installed there.
root=$PWD
cd "$scratch" || exit 1
check "luarocks make --pack-binary-rock" sh -c "cd '$root' && luarocks --lua-version 5.4 make --tree '$scratch/rocks' \
  lio-dev-1.rockspec && cd '$scratch' && luarocks --lua-version 5.4 --tree '$scratch/rocks' pack lio"
cd "$root" || exit 1
cp "$scratch"/lio-dev-1.*.rock "$system/tmp/"
check "luarocks install" inside sh -c 'luarocks --lua-version 5.4 install /tmp/lio-dev-1.*.rock'
check "luarocks: a stock Lua serves" same served inside lua5.4 /tmp/serve.lua
check "luarocks remove" inside luarocks --lua-version 5.4 remove lio
check "luarocks remove leaves nothing" same "" sh -c "find '$system/usr/local' -name '*lio*'"

# The last stage of the Dockerfile. The image of Debian is this system.
stage=$(sed -n '/^FROM debian/,$p' Dockerfile)
check "Dockerfile: RUN" inside sh -c "$(printf '%s\n' "$stage" | sed -n 's/^RUN //p')"
install -m 755 "${LIO_BIN:-target/release/lio}" "$system/usr/local/bin/lio"
user=$(printf '%s\n' "$stage" | sed -n 's/^USER //p')
check "Dockerfile: the user is not root" same "$user" inside sh -c "getent passwd '$user' | cut -d: -f3"
check "Dockerfile: lio serves" same served \
  env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin chroot --userspec="$user:$user" "$system" lio /tmp/serve.lua

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
