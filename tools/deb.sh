#!/bin/sh
# Builds the Debian packages from a copy of the tree, checks them with lintian and leaves them in a
# folder: `make deb`.
#
#     tools/deb.sh [FOLDER]
set -eu
cd "$(dirname "$0")/.."
out=${1:-dist}
mkdir -p "$out"
out=$(cd "$out" && pwd)
version=$(dpkg-parsechangelog -S Version)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/larder-deb-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/larder-$version
mkdir "$tree"
tools/tracked-files.sh | tar -cf - -T - | tar -xf - -C "$tree"

log=$out/deb.log
fails() {
    tail -n 40 "$log" >&2
    echo "deb: $1; all of it: $log" >&2
    exit 1
}
(cd "$tree" && DEB_BUILD_OPTIONS="noautodbgsym ${DEB_BUILD_OPTIONS:-}" dpkg-buildpackage --build=binary --no-sign) >"$log" 2>&1 || fails "the build failed"
lintian --tag-display-limit 0 --fail-on error,warning "$scratch"/*.changes >>"$log" 2>&1 || fails "lintian complains"
rm "$log"
mv "$scratch"/*.deb "$out"
ls "$out"/*_"$version"_*.deb
