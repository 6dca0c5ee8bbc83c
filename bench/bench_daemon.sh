#!/bin/bash
# The daemon: batches of resident samples against redis and memcached (build/bench_daemon), then the
# makespan of four jobs that train at the same time on throttled storage. Each job gets a quarter of the
# storage's bandwidth, with and without sharing, so storage is never faster for those that share.
#
#     bench/bench_daemon.sh [--makespan]      BANDWIDTH=4MiB EPOCHS=3 JOBS=4 CACHE=20%
set -euo pipefail
cd "$(dirname "$0")/.."
data=${DATA:-/usr/share/datasets/fashion-mnist}
bandwidth=${BANDWIDTH:-4MiB} epochs=${EPOCHS:-3} jobs=${JOBS:-4} cache=${CACHE:-20%}
[ "${1:-}" = --makespan ] || build/bench_daemon
[ -d "$data" ] || {
    echo "makespan: $data is not there (DATA=folder), left out"
    exit 0
}
folder=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon"; rm -rf "$folder"' EXIT

run() { # NAME CACHE RECIPE: seconds until the last job is done, and what they read
    local began ended pids=() p
    began=$(date +%s.%N)
    for i in $(seq "$jobs"); do
        build/larder train "$data" --cache "$2" --recipe "$3" --seed "$i" --epochs "$epochs" \
            --slow "bandwidth=$bandwidth" --threads 1 --json --quiet >"$folder/$1.$i" &
        pids+=($!)
    done
    for p in "${pids[@]}"; do wait "$p"; done
    ended=$(date +%s.%N)
    cat "$folder/$1".* | python3 -c '
import json, sys
lines = [json.loads(x) for x in sys.stdin]
served = sum(e["served"] for e in lines)
whole = all(e["touched"] == 1 and e["repeats"] == 0 for e in lines)
print("%-34s %6.1f s  %5.2f bytes read a byte served  %s" % (sys.argv[1],
      float(sys.argv[3]) - float(sys.argv[2]),
      sum(e["storage_bytes"] for e in lines) / (served * 784.0), "exactly once" if whole else "NOT WHOLE"))
' "$1" "$began" "$ended"
}

build/larder serve --socket "$folder/s" --cache 256MiB --quiet >"$folder/log" &
daemon=$!
sleep 0.5
echo "$jobs jobs, $epochs epochs, cache $cache, storage $bandwidth/s for each job; load $(cut -d' ' -f1 /proc/loadavg)"
run "no cache" 0 minio
run "minio, each its own cache" "$cache" minio
run "seneca, each its own cache" "$cache" seneca
run "seneca, one daemon" "unix:$folder/s?budget=$cache" seneca
