#!/bin/sh
# Installs lio from the folder of the release tarball, or removes it. Run as a user who may write to the prefix:
#   ./install.sh [--prefix DIR] [--uninstall]
# The default of DIR is /usr/local. `--uninstall` removes the files that this version installs, and no others.
set -eu

prefix=/usr/local
action=install
usage() {
  echo 'usage: ./install.sh [--prefix DIR] [--uninstall]'
}
mistake() {
  echo "install.sh: $1" >&2
  usage >&2
  exit 1
}
while [ $# -gt 0 ]; do
  case $1 in
    --prefix)
      [ $# -gt 1 ] || mistake "'--prefix' needs a folder"
      prefix=$2
      shift
      ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --uninstall) action=uninstall ;;
    -h | --help)
      usage
      exit
      ;;
    *) mistake "unrecognized argument '$1'" ;;
  esac
  shift
done
[ -n "$prefix" ] || mistake "'--prefix' needs a folder"
case $prefix in
  /*) ;;
  *) prefix=$PWD/$prefix ;;
esac

cd "$(dirname "$0")"
# No path in the tarball contains a space.
files=$(find bin lib share ! -type d)

if [ "$action" = install ]; then
  for file in $files; do
    mkdir -p "$prefix/${file%/*}"
    # A rename replaces an old file, which a process may be running.
    cp -P "$file" "$prefix/$file.new"
    mv -f "$prefix/$file.new" "$prefix/$file"
  done
  echo "installed $("$prefix/bin/lio" -v) as $prefix/bin/lio"
else
  for file in $files; do rm -f "$prefix/$file"; done
  # These two folders belong to lio. They remain if they contain other files.
  rmdir "$prefix/share/lio/meta" "$prefix/share/lio" 2>/dev/null || true
  echo "removed lio from $prefix"
fi
