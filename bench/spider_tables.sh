#!/bin/sh
# The tables of docs/results/spider.md. Names given make these alone:
#
#   trace     what the cache does, over the recorded training of TRACE, for four cache sizes
#   loop      the same in the closed loop, with accuracy over SEEDS seeds
#   samplers  the samplers alone: no cache at all
#   ratio     the share of important samples: fixed, falling a little, falling far
#
#   SEEDS EPOCHS CACHES   5, 10 (the trace: 30), 10%,25%,50%,75%
#   JOBS                  runs at a time (the cores)
#   NET DATA TRACE LARDER RESULTS
#
# Closed loops keep their results in RESULTS and go on there when started again.
set -eu
cd "$(dirname "$0")/.."

larder=${LARDER:-build/larder}
jobs=${JOBS:-$(nproc)}
seeds=${SEEDS:-5}
caches=${CACHES:-10%,25%,50%,75%}
trace=${TRACE:-${LARDER_SHARED:-../shared/data}/traces/cifar10-resnet18}
results=${RESULTS:-build/spider_loop.jsonl}

# Batches wait for the scoring that is due: a small network alone is faster than any scoring, and
# what is thinned out would depend on the machine.
spider=spider:scoring=wait
hubs_off=$spider,ratio=1,ratio_end=1
others="lru minio shade:repeat=1 shade:repeat=3 icache:h_share=1 icache rotate:h=0.5 rotate:h=0.8"

comma() { printf '%s' "$*" | tr ' ' ','; }

loop() { # title, epochs, caches, recipes
    echo
    echo "$1"
    bench/closed_loop.py --seeds "$seeds" --epochs "$2" --caches "$3" --recipes "$4" \
        --jobs "$jobs" --larder "$larder" --results "$results" --markdown \
        ${NET:+--net "$NET"} ${DATA:+--data "$DATA"}
}

simulate() {
    if [ ! -f "$trace/labels.npy" ]; then
        echo "spider_tables: no trace in $trace (TRACE=folder)" >&2
        return
    fi
    folder=$(mktemp -d)
    n=0
    for recipe in $others $hubs_off $spider; do
        for cache in $(printf '%s' "$caches" | tr ',' ' '); do
            n=$((n + 1))
            printf '%s %s %s/%03d\n' "$recipe" "$cache" "$folder" "$n"
        done
    done >"$folder/list"
    echo
    echo "trace $trace, ${EPOCHS:-30} epochs"
    # shellcheck disable=SC2016 # the inner shell expands these
    xargs -P "$jobs" -L 1 sh -c '"$0" sim --recipe "$4" --cache "$5" --trace "$1" --epochs "$2" \
        --batch "$3" --seed 1 --quiet >"$6"' \
        "$larder" "$trace" "${EPOCHS:-30}" 256 <"$folder/list"
    head -n 1 "$folder/001"
    for file in "$folder"/[0-9]*; do
        tail -n 1 "$file"
    done
    rm -r "$folder"
}

[ $# -gt 0 ] || set -- trace loop samplers ratio
for what; do
    case $what in
        trace) simulate ;;
        loop) loop "closed loop" "${EPOCHS:-10}" "$caches" "$(comma "$others" "$hubs_off" "$spider")" ;;
        samplers) loop "samplers, no cache" "${EPOCHS:-10}" 0 \
            "$(comma minio shade:repeat=1 icache "$spider,correct=0" "$spider")" ;;
        ratio) loop "share of important samples" "${EPOCHS:-10}" 25% \
            "$(comma minio "$spider,ratio_end=0.9" "$spider" "$spider,ratio_end=0.5")" ;;
        *)
            echo "spider_tables: trace, loop, samplers or ratio, not $what" >&2
            exit 2
            ;;
    esac
done
