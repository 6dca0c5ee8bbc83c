#!/usr/bin/env bash
# release build only
# No optional part is off unseen: where LARDER_EXPECT_FULL is set (as .ci/run does, after installing
# all packages), every one must be on.
set -eu
version=$("$LARDER" --version)
echo "$version"
for part in jpeg png zlib xz zstd cblas uring; do
    echo "$version" | grep -qw -e "$part" || {
        echo "--version says nothing of $part" >&2
        exit 1
    }
done
if [ "${LARDER_EXPECT_FULL:-}" ] && echo "$version" | grep -q '(off:'; then
    echo "something is off in what should be a full build" >&2
    exit 1
fi
