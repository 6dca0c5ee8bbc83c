#!/bin/bash
# Nodes as network namespaces, each with a part of a Redis Cluster, a job of its own, storage of its own
# bandwidth and a shaped link to the others: every node its own cache of C, the nodes' memory pooled
# (n C in all), and a single node that has n C to itself. Needs root (namespaces).
#
#     bench/redis_nodes.sh      NODES="2 4" CACHE=10 (percent) EPOCHS=3 RATE=1gbit DELAY=0.1ms BANDWIDTH=8MiB
set -euo pipefail
cd "$(dirname "$0")/.."
data=${DATA:-/usr/share/datasets/fashion-mnist} epochs=${EPOCHS:-3} share=${CACHE:-10}
rate=${RATE:-1gbit} delay=${DELAY:-0.1ms} bandwidth=${BANDWIDTH:-8MiB} recipe=${RECIPE:-minio}
[ "$(id -u)" = 0 ] && command -v tc redis-server redis-cli >/dev/null || {
    echo "redis_nodes: needs root, tc and redis-server; left out"
    exit 0
}
[ -d "$data" ] || {
    echo "redis_nodes: $data is not there (DATA=folder), left out"
    exit 0
}
tag=ln$$
folder=$(mktemp -d)
servers=()
clean() {
    for p in "${servers[@]}"; do kill "$p" 2>/dev/null || true; done
    for i in 1 2 3 4 5 6 7 8; do ip netns del "$tag-$i" 2>/dev/null || true; done
    ip link del "$tag" 2>/dev/null || true
    rm -rf "$folder"
}
trap clean EXIT

ip link add "$tag" type bridge
ip link set "$tag" up

shape() { # TC ARGUMENTS UP TO THE DEVICE: both ways of a link; without netem in the kernel only the rate
    tc "$@" root netem rate "$rate" delay "$delay" limit 10000 2>/dev/null && return
    delay="no delay"
    tc "$@" root tbf rate "$rate" burst 256kb latency 50ms
}

node() { # NUMBER: a namespace with an address and a shaped link, and its redis-server
    ip netns add "$tag-$1"
    ip link add "${tag}v$1" type veth peer name eth0 netns "$tag-$1"
    ip link set "${tag}v$1" master "$tag" up
    ip -n "$tag-$1" addr add "10.77.31.$1/24" dev eth0
    ip -n "$tag-$1" link set eth0 up
    ip -n "$tag-$1" link set lo up
    shape -n "$tag-$1" qdisc add dev eth0
    shape qdisc add dev "${tag}v$1"
    mkdir "$folder/$1"
    ip netns exec "$tag-$1" redis-server --port 7000 --bind "10.77.31.$1" --dir "$folder/$1" \
        --protected-mode no --save '' --cluster-enabled yes >"$folder/$1/log" 2>&1 &
    servers+=($!)
}

at() { # NUMBER COMMAND…: to the server of that node
    local n=$1
    shift
    ip netns exec "$tag-1" redis-cli -h "10.77.31.$n" -p 7000 "$@"
}

cluster() { # NODES: their servers share the slots out
    for i in $(seq "$1"); do
        until at "$i" ping >/dev/null 2>&1; do sleep 0.1; done
        at "$i" flushall >/dev/null
        at "$i" cluster reset hard >/dev/null
    done
    for i in $(seq "$1"); do
        at "$i" cluster addslotsrange $(((i - 1) * 16384 / $1)) $((i * 16384 / $1 - 1)) >/dev/null
        [ "$i" = 1 ] || at "$i" cluster meet 10.77.31.1 7000 >/dev/null
    done
    for i in $(seq "$1"); do
        until [ "$(at "$i" cluster info | tr -d '\r' | grep -c "cluster_state:ok\|known_nodes:$1\$")" = 2 ]; do
            sleep 0.2
        done
    done
}

run() { # LABEL JOBS CACHE PERCENT: of the data set that is cached for each job
    local pids=() p
    for i in $(seq "$2"); do
        ip netns exec "$tag-$i" build/larder train "$data" --cache "$3" --recipe "$recipe" --seed "$i" \
            --epochs "$epochs" --slow "bandwidth=$bandwidth" --threads 1 --json --quiet \
            >"$folder/out.$i" 2>"$folder/err.$i" &
        pids+=($!)
    done
    for p in "${pids[@]}"; do wait "$p"; done
    cat $(seq -f "$folder/out.%g" "$2") | python3 -c '
import json, sys
lines = [json.loads(x) for x in sys.stdin if x.startswith("{")]
late = [e for e in lines if e["epoch"] > 0]
served = sum(e["served"] for e in late)
whole = all(e["touched"] == 1 and e["repeats"] == 0 for e in lines)
reads = sum(e["misses"] + e["background_reads"] for e in late) / served
# What never leaves is hit once an epoch: 1 - n c is read.
form = 1 - float(sys.argv[2]) / 100
said = "   1 - n c is %.4f, off by %.2f %%" % (form, 100 * abs(reads - form) / form) if sys.argv[3] == "minio" else ""
print("%-34s %7.4f storage reads a sample   %6.2f s an epoch   %s%s" % (sys.argv[1], reads,
      sum(e["seconds"] for e in late) / len(late), "exactly once" if whole else "with repeats", said))
' "$1" "$4" "$recipe"
}

for i in $(seq "$(echo "${NODES:-2 4}" | tr ' ' '\n' | sort -n | tail -1)"); do node "$i"; done
echo "$recipe, $share % of the data a node, links of $rate and $delay, storage of $bandwidth a node; epochs after the first"
for n in ${NODES:-2 4}; do
    cluster "$n"
    hosts=$(seq -f "10.77.31.%g:7000" -s, "$n")
    run "$n nodes, each its own" "$n" "$share%" "$share"
    run "$n nodes, pooled in Redis" "$n" "redis-cluster://$hosts?budget=$((share * n))%&shared=bench&timeout=5s" "$((share * n))"
    run "1 node with all of it, embedded" 1 "$((share * n))%" "$((share * n))"
done
