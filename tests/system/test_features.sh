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

# What it is made of: every library that was found has a version, and is loaded, but for those that are
# part of this program.
"$LARDER" --version --json | python3 -c '
import json, sys

bill = json.load(sys.stdin)
parts = bill["parts"].split()
there = [p for p in parts if not p.startswith("-")]
assert len(bill["built_with"]) == len(there), (bill["built_with"], there)
assert all(b["name"] and b["version"][0].isdigit() for b in bill["built_with"]), bill["built_with"]
assert any("/libc." in path or "musl" in path for path in bill["loaded"]), bill["loaded"]
assert all(oldest <= newest for oldest, newest in bill["formats"].values()), bill["formats"]
'
