#!/usr/bin/env bash
# release build only
# The core builds with a C compiler and make alone, and says what is off. Long: it compiles the
# whole tree once more.
set -eu
. tests/support/tree.sh
bare_path "$scratch/bin"
# What is compiled stays for the next time, and test_contributing goes on from it.
core=$LARDER_BUILD/core-objects
PATH=$scratch/bin make core CORE_CFLAGS=-O0 CORE_DIR="$core" >"$scratch/out" 2>&1 || {
    cat "$scratch/out"
    die "make core failed"
}
"$core/larder" --version
parts=" $("$core/larder" --version | sed -n 's/^parts: *//p') "
for part in jpeg png webp tiff gif lmdb hdf5 sound zlib xz zstd cblas uring redis; do
    case $parts in *" -$part "*) ;; *) die "--version does not say that $part is off" ;; esac
done
# Everything but the optional parts works.
"$core/larder" sim --recipe lru --n 1000 --epochs 2 --batch 100 --cache 20% --seed 1 --json |
    grep -q '"hit_ratio"'
