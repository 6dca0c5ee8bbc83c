#!/usr/bin/env bash
# release build only
# No optional part is off unseen: where LARDER_EXPECT_FULL is set (as .ci/run does, after installing
# all packages), every one must be on.
set -eu
"$LARDER" --version
parts=" $("$LARDER" --version | sed -n 's/^parts: *//p') "
for part in jpeg png webp tiff gif lmdb hdf5 sound zlib xz zstd cblas uring redis tls; do
    case $parts in
    *" $part "*) ;;
    *" -$part "*)
        if [ "${LARDER_EXPECT_FULL:-}" ]; then
            echo "$part is off in what should be a full build" >&2
            exit 1
        fi
        ;;
    *)
        echo "--version says nothing of $part" >&2
        exit 1
        ;;
    esac
done
