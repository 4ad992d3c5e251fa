#!/bin/sh
# Builds a stock interpreter of a Lua version: `sh tests/stock.sh 5.5 target/stock/lua5.5`. Debian has no Lua 5.5. It uses
# the same Lua sources as the executable, from the crate lua-src. With `address` as the third argument, the interpreter
# contains AddressSanitizer, with rustc's runtime, so that it can load a shared object that rustc has built with it.
set -eu
version=$1 output=$2 sanitizer=${3:-}
cargo fetch --quiet
crate=$(cargo metadata --format-version 1 --offline | tr ',' '\n' |
  sed -n 's/^"manifest_path":"\(.*\/lua-src-[^/]*\)\/Cargo.toml"$/\1/p' | head -n 1)
sources=$(ls -d "$crate"/lua-"$version".* | tail -n 1)
if [ ! -e "$sources/lapi.c" ]; then
  echo "tests/stock.sh: no sources of Lua $version in the crate lua-src" >&2
  exit 1
fi
flags= libraries=
if [ "$sanitizer" = address ]; then
  flags='-g -fsanitize=address -fno-omit-frame-pointer -DLUA_USE_APICHECK'
  runtime=$(ls "$(rustc --print target-libdir)"/librustc-*_rt.asan.a | head -n 1)
  # gcc compiles with its own sanitizer, but links rustc's runtime, all of which the shared object may need.
  libraries="-Wl,--whole-archive $runtime -Wl,--no-whole-archive -lpthread -lrt"
fi
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
script=$(cd "$(dirname "$0")" && pwd)
# shellcheck disable=SC2086
(cd "$objects" && cc -O2 $flags -DLUA_USE_LINUX -I "$sources" -c "$script/stock.c" "$sources"/*.c)
# shellcheck disable=SC2086
cc -Wl,-E -o "$output.new" "$objects"/*.o $libraries -lm -ldl
mv -f "$output.new" "$output"
