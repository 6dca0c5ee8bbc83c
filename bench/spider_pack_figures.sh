#!/bin/sh
# The figures of docs/results (graph, spider, packed shards) that want a quiet machine of several
# cores and half an hour: one line a benchmark as it ends, everything in OUT (figures/).
#
#     bench/spider_pack_figures.sh [graph] [pack] [ratio]
#
# graph  exact, hnswlib beside it, strata at 1.28 million (12 GB of memory), growth with N
# pack   packed shards against full decodes and PyTorch (LARDER_SHARED has the photographs)
# ratio  closed loops of spider with three shares at the end (SEEDS, 5)
set -eu
cd "$(dirname "$0")/.."
out=${OUT:-figures}
mkdir -p "$out"
[ $# -gt 0 ] || set -- graph pack ratio

run() { # name, command...
    name=$1
    shift
    echo "$name: $*"
    "$@" >"$out/$name.txt" 2>&1 || echo "$name failed, see $out/$name.txt" >&2
}

for what; do
    case $what in
        graph)
            run exact build/bench_graph exact
            run speed build/bench_graph speed &
            run strata-10 build/bench_graph strata 1280000 10 &
            run strata-1000 build/bench_graph strata 1280000 1000 &
            run growth build/bench_graph growth &
            wait
            ;;
        pack) run pack bench/bench_pack.sh ;;
        ratio) run ratio env RESULTS="$out/ratio.jsonl" bench/spider_tables.sh ratio ;;
        *)
            echo "spider_pack_figures: graph, pack or ratio, not $what" >&2
            exit 2
            ;;
    esac
done
