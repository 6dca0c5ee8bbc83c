#!/usr/bin/env bash
# release build only
# SpiderCache's own engine as a plug-in: built from examples/hnsw where hnswlib is, it scores as the
# engines inside do, and the tests of the signal graph run over it. Long: a compilation of hnswlib and both of those tests once
# more; test_plugin has what holds for any plug-in from outside.
set -eu
. tests/support/tree.sh
root=$PWD
cp examples/hnsw/* "$scratch"
command -v c++ >/dev/null || exit 77
echo '#include <hnswlib/hnswlib.h>' | c++ -std=c++17 -fsyntax-only -x c++ - 2>/dev/null || exit 77
make -s -C "$scratch" LARDER_CFLAGS="-I$root/include" CFLAGS="-O2 -Wall -Wextra -Werror" \
    CXXFLAGS=-O2
"$LARDER" --plugin "$scratch/hnsw.so" list | grep -qw hnswpq || die "larder list does not show it"
for test in test_graph test_graph_twin; do
    LARDER_PLUGINS=$scratch/hnsw.so "$LARDER_BUILD/$test" >"$scratch/out" 2>&1 || {
        cat "$scratch/out"
        die "$test fails with hnsw"
    }
done
grep -q 'OK.*hnsw_fits' "$scratch/out" || die "test_graph_twin does not see it"
