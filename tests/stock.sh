#!/bin/sh
# Builds a stock interpreter of a Lua version that Debian does not have: `sh tests/stock.sh 5.5 target/stock/lua5.5`.
# It uses the same Lua sources as the executable, from the crate lua-src.
set -eu
version=$1 output=$2
cargo fetch --quiet
crate=$(cargo metadata --format-version 1 --offline | tr ',' '\n' |
  sed -n 's/^"manifest_path":"\(.*\/lua-src-[^/]*\)\/Cargo.toml"$/\1/p' | head -n 1)
sources=$(ls -d "$crate"/lua-"$version".* | tail -n 1)
if [ ! -e "$sources/lapi.c" ]; then
  echo "tests/stock.sh: no sources of Lua $version in the crate lua-src" >&2
  exit 1
fi
cc -O2 -DLUA_USE_LINUX -I "$sources" -Wl,-E -o "$output.new" "$(dirname "$0")/stock.c" "$sources"/*.c -lm -ldl
mv -f "$output.new" "$output"
