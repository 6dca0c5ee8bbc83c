#!/usr/bin/env bash
# release build only
# The source archive has the same bytes each time; the container names no package by itself.
set -eu
. tests/support/tree.sh
containerfile=tools/Containerfile
grep -q '^FROM debian:12' $containerfile || die "not from Debian 12"
# Lines that go on are one.
sed -e ':a' -e '/\\$/N; s/\\\n//; ta' $containerfile >"$scratch/container"
grep -o 'apt-get install[^&]*' "$scratch/container" | tr ' ' '\n' | grep -v -e '^$' -e '^apt-get$' -e '^install$' -e '^-' -e '\.deb$' &&
    die "$containerfile names packages; tools/install-packages.sh does"
groups=$(sed -n 's/.*install-packages\.sh --strict \([a-z ]*\) &&.*/\1/p' "$scratch/container")
[ "$groups" ] || die "$containerfile does not ask tools/install-packages.sh"
grep -qx build .dockerignore || die "what was built here would go into the container"
# shellcheck disable=SC2086 # one word a group
tools/install-packages.sh --print $groups >"$scratch/names"
grep -qx debhelper "$scratch/names" || die "debhelper is missing, which tools/deb.sh needs"

if [ ! -e .git ] || ! command -v git >/dev/null; then
    echo "skipped: no git repository"
    exit 77
fi
tools/dist.sh --source "$scratch/one" >"$scratch/log"
(umask 077 && tools/dist.sh --source "$scratch/two" >"$scratch/log")
cmp "$scratch"/one/larder-*.tar.gz "$scratch"/two/larder-*.tar.gz || die "two archives of one commit differ"
(cd "$scratch/one" && sha256sum --quiet -c SHA256SUMS) || die "the checksums are others"
tar -tzf "$scratch"/one/*.tar.gz >"$scratch/inside"
version=$(sed -n 's/^#define LARDER_VERSION "\(.*\)"$/\1/p' include/larder/larder.h)
grep -qx "larder-$version/src/plugins.def" "$scratch/inside" || die "the sources are not in it"
grep -v "^larder-$version/" "$scratch/inside" && die "it has something beside its folder"
grep -e '/build/' -e '\.git/' "$scratch/inside" && die "it has what nobody asked for"
# Times of the commit alone.
[ "$(tar --full-time -tvzf "$scratch"/one/*.tar.gz | awk '{ print $4, $5 }' | sort -u | wc -l)" = 1 ] ||
    die "files have times of their own"
touch "$scratch/one/somebody's"
tools/dist.sh --source "$scratch/one" >"$scratch/log" 2>&1 && die "it took a folder with other files"
[ -e "$scratch/one/somebody's" ] || die "it removed somebody's file"
