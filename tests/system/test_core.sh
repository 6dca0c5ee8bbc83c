#!/usr/bin/env bash
# release build only
# The core builds with a C compiler and make alone, and says what is off.
set -eu
. tests/support/tree.sh
copy_tree "$scratch/tree"
bare_path "$scratch/bin"
cd "$scratch/tree"
PATH=$scratch/bin make core CORE_CFLAGS=-O0 >"$scratch/out" 2>&1 || {
    cat "$scratch/out"
    die "make core failed"
}
build/core/larder --version
parts=" $(build/core/larder --version | sed -n 's/^parts: *//p') "
for part in jpeg png zlib xz zstd cblas uring hnsw redis; do
    case $parts in *" -$part "*) ;; *) die "--version does not say that $part is off" ;; esac
done
# test_contributing goes on from what was compiled here.
rm -rf "$LARDER_BUILD/core-objects"
cp -a build/core "$LARDER_BUILD/core-objects"
# Everything but the optional parts works.
build/core/larder sim --recipe lru --n 1000 --epochs 2 --batch 100 --cache 20% --seed 1 --json |
    grep -q '"hit_ratio"'
