#!/usr/bin/env bash
# release build only
# No optional part is off unseen: where LARDER_EXPECT_FULL is set (as .ci/run does, after installing
# all packages), every one must be on.
set -eu
. tests/support/tree.sh
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
libc = ["glibc"] if any("/libc.so.6" in path for path in bill["loaded"]) else []
assert [b["name"] for b in bill["built_with"]][:len(libc)] == libc, bill["built_with"]
assert len(bill["built_with"]) == len(there) + len(libc), (bill["built_with"], there)
assert all(b["name"] and b["version"][0].isdigit() for b in bill["built_with"]), bill["built_with"]
assert any("/libc." in path or "musl" in path for path in bill["loaded"]), bill["loaded"]
late = {"tiff": "libtiff", "hdf5": "libhdf5", "sound": "libsndfile", "cblas": "blas", "curl": "libcurl", "tls": "libssl"}
for part, stem in late.items():
    assert part not in there or any(stem in path for path in bill["loaded"]), (part, bill["loaded"])
assert all(oldest <= newest for oldest, newest in bill["formats"].values()), bill["formats"]
'

# Most commands start without the large libraries, and without those that are damaged; what needs one
# says which.
grep -q '^LARDER_LATE:.*=ON' "$LARDER_BUILD/CMakeCache.txt" || exit 0
ldd "$LARDER" | grep -E 'libhdf5|libcurl|libopenblas|libssl|libtiff|libsndfile' && die "these are loaded at every start"
case $parts in
*" hdf5 "*)
    hdf5=$("$LARDER" --version --json | grep -o '[^"/]*libhdf5[^"]*' | head -n 1)
    mkdir "$scratch/damaged"
    : >"$scratch/damaged/$hdf5"
    : >"$scratch/rows.h5"
    LD_LIBRARY_PATH=$scratch/damaged "$LARDER" --version >/dev/null || die "a damaged library keeps it from starting"
    LD_LIBRARY_PATH=$scratch/damaged "$LARDER" ls "hdf5:$scratch/rows.h5" 2>"$scratch/log" && die "it reads HDF5 without a library"
    grep -q "$hdf5 cannot be opened" "$scratch/log" || { cat "$scratch/log"; die "it does not say what is missing"; }
    ;;
esac
