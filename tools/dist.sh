#!/bin/sh
# What a release consists of, of the commit that is checked out: source archive, wheel, Debian packages and
# their checksums, in a folder of their own: `make dist`. The archive has the same bytes wherever it is made.
#
#     tools/dist.sh [--source] [FOLDER]
#
# --source   the archive and its checksum alone
set -eu
cd "$(dirname "$0")/.."
only=
if [ "${1:-}" = --source ]; then
    only=1
    shift
fi
out=${1:-dist}
version=$(sed -n 's/^#define LARDER_VERSION "\(.*\)"$/\1/p' include/larder/larder.h)
if [ ! -e .git ]; then
    echo "dist: a release is made of a commit, and this is no git repository" >&2
    exit 1
fi
if [ ! "$only" ] && [ "$(git status --porcelain)" ]; then
    echo "dist: not committed yet: $(git status --porcelain | cut -c4- | head -n 3 | tr '\n' ' ')" >&2
    exit 1
fi
mkdir -p "$out"
if [ "$(find "$out" -type f ! -name 'larder[-_]*' ! -name '*.deb' ! -name SHA256SUMS)" ]; then
    echo "dist: $out has other files; name an empty folder" >&2
    exit 1
fi
rm -f "$out"/*

# In the order of names, with the time of the commit, whoever owns the files here.
git -c tar.umask=0022 archive --format=tar --prefix="larder-$version/" HEAD | gzip -n9 >"$out/larder-$version.tar.gz"
if [ ! "$only" ]; then
    tools/wheel.sh "$out"
    tools/deb.sh "$out"
fi
sums=$(cd "$out" && find . -type f | sed 's|^\./||' | sort | xargs sha256sum)
echo "$sums" | tee "$out/SHA256SUMS"
