#!/bin/bash
# http: against curl on one link: small objects behind a latency, and shards through a bandwidth.
# nginx serves, build/bench_http is the wire between (latency in both directions, bandwidth towards
# us). curl gets the same objects one by one on one kept connection, and many at a time; of shards it
# gets the whole files. larder is asked by four threads (eight for 256) for 64 samples at a time, as a
# loader's readers ask. Median and spread of ROUNDS, interleaved.
#
#     bench/bench_http.sh      ROUNDS=5 LATENCY=20 (ms, there and back) RATE=50000000 (bytes/s)
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-5} latency=${LATENCY:-20} rate=${RATE:-50000000}
nginx=$(command -v nginx || echo /usr/sbin/nginx)
if ! [ -x "$nginx" ] || ! command -v curl >/dev/null; then
    echo "http: needs nginx and curl, left out"
    exit 0
fi
build/larder --version | grep -q ' curl ' || {
    echo "http: this build has no libcurl, left out"
    exit 0
}
[ -x build/bench_http ] || {
    echo "http: cmake --build build --target bench_http makes the wire it needs" >&2
    exit 1
}
python=python3
if [ -x /usr/bin/python3 ]; then python=/usr/bin/python3; fi
folder=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
export LARDER_CACHE_DIR=$folder/cache no_proxy='*'

free_ports() {
    "$python" -c '
import socket
s = [socket.socket() for _ in range(3)]
for x in s: x.bind(("127.0.0.1", 0))
print(*(x.getsockname()[1] for x in s))'
}
read -r server slow narrow < <(free_ports)

"$python" - "$folder/www" <<'MAKE'
import io, os, random, sys, tarfile
rng = random.Random(1)
root = sys.argv[1]
os.makedirs(f"{root}/small/a")
for i in range(2000):
    with open(f"{root}/small/a/{i:05}.jpg", "wb") as f:
        f.write(rng.randbytes(3000))
os.makedirs(f"{root}/shards")
for s in range(4):
    with tarfile.open(f"{root}/shards/s-{s}.tar", "w") as tar:
        for i in range(400):
            data = rng.randbytes(rng.randint(60000, 160000))
            member = tarfile.TarInfo(f"{s}-{i:05}.jpg")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
MAKE
cat >"$folder/conf" <<CONF
daemon off; master_process off; pid $folder/pid; error_log $folder/log;
events { worker_connections 2048; }
http { access_log off; keepalive_requests 1000000; sendfile on; tcp_nopush off;
  client_body_temp_path $folder/t1; proxy_temp_path $folder/t2; fastcgi_temp_path $folder/t3;
  uwsgi_temp_path $folder/t4; scgi_temp_path $folder/t5;
  server { listen 127.0.0.1:$server; root $folder/www; autoindex on; } }
CONF
"$nginx" -c "$folder/conf" -p "$folder" 2>/dev/null &
pids+=($!)
half=$("$python" -c "print($latency / 2)")
build/bench_http wire "$slow" "$server" "$half" 0 &
pids+=($!)
build/bench_http wire "$narrow" "$server" "$half" "$rate" &
pids+=($!)
for port in "$server" "$slow" "$narrow"; do
    for _ in $(seq 100); do
        curl -s -o /dev/null "http://127.0.0.1:$port/" && break
        sleep 0.1
    done
done

note() { echo "$2" >>"$folder/$1"; }   # NAME: "SECONDS COUNT BYTES CPU"
time_curl() {                          # NAME COUNT BYTES curl's arguments
    local name=$1 count=$2 bytes=$3 began
    shift 3
    began=$(date +%s.%N)
    curl -s "$@" 2>/dev/null
    note "$name" "$("$python" -c "import time; print(time.time() - $began)") $count $bytes 0"
}
urls() { # PORT FIRST COUNT: a file for curl -K
    for i in $(seq "$2" $(($2 + $3 - 1))); do
        printf 'url = "http://127.0.0.1:%s/small/a/%05d.jpg"\noutput = "/dev/null"\n' "$1" "$i"
    done
}
urls "$slow" 0 100 >"$folder/few"
urls "$slow" 0 2000 >"$folder/all"
shards="http://127.0.0.1:$narrow/shards/"
whole=$(cat "$folder"/www/shards/*.tar | wc -c)
build/larder ls "$shards" >/dev/null # so that the index is kept: what is timed is reading
for _ in $(seq "$rounds"); do
    time_curl 'small: curl, one by one' 100 300000 -K "$folder/few"
    note 'small: larder, one by one' \
        "$(build/bench_http read "http://127.0.0.1:$slow/small/" 1 100 shuffled 1)"
    time_curl 'small: curl, 64 at a time' 2000 6000000 -Z --parallel-max 64 -K "$folder/all"
    note 'small: larder, 64 at a time' \
        "$(build/bench_http read "http://127.0.0.1:$slow/small/" 64 2000 shuffled 4)"
    note 'small: larder, 256 at a time' \
        "$(build/bench_http read "http://127.0.0.1:$slow/small/?requests=256" 64 2000 shuffled 8)"
    time_curl 'shards: curl, whole files' 1600 "$whole" -Z --parallel-max 4 -o /dev/null \
        -o /dev/null -o /dev/null -o /dev/null "${shards}s-{0,1,2,3}.tar"
    note 'shards: larder, in order' "$(build/bench_http read "$shards" 64 1600 order 4)"
    note 'shards: larder, shuffled' "$(build/bench_http read "$shards" 64 1600 shuffled 4)"
done
echo "latency $latency ms, link $((rate / 1000000)) MB/s, $rounds rounds: median (least to most)"
"$python" - "$folder" "$rate" <<'SHOW'
import os, statistics, sys
folder, rate = sys.argv[1], float(sys.argv[2])
def of(name):
    with open(os.path.join(folder, name)) as f:
        return [[float(x) for x in line.split()] for line in f]
base = statistics.median(r[1] / r[0] for r in of("small: curl, one by one"))
for name in sorted(n for n in os.listdir(folder) if n.startswith("small:")):
    rates = [r[1] / r[0] for r in of(name)]
    mid = statistics.median(rates)
    print(f"{name:32} {mid:7.0f} objects/s ({min(rates):.0f} to {max(rates):.0f})  {mid / base:5.1f} x")
for name in sorted(n for n in os.listdir(folder) if n.startswith("shards:")):
    shares = [r[2] / r[0] / rate for r in of(name)]
    mid = statistics.median(shares)
    print(f"{name:32} {mid * rate / 1e6:7.1f} MB/s of samples "
          f"{100 * mid:5.1f} % of the link ({100 * min(shares):.1f} to {100 * max(shares):.1f})")
SHOW
