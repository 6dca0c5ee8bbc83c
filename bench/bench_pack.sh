#!/usr/bin/env bash
# Photographs to RandomResizedCrop(224), flip, normalise, in samples per core-second (CPU time of all
# processes of a side), turn by turn: packed shards of which the crop's segments are read, the same
# pictures as they were, with a full decode, and PyTorch's DataLoader. Then bytes read, size of the
# packed set, speed of packing, and opening a million samples.
#
#     bench/bench_pack.sh [TAR...]
#
# ROUNDS (5), SAMPLES (1000 a round), FILES (1000 pictures: repeated under new names up to that),
# SLOW (4MB 8MB 16MB: bandwidths for epochs from slow storage), MILLION (1: measure opening), BUILD (build), PYTHON (/usr/bin/python3).
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-5} samples=${SAMPLES:-1000} files=${FILES:-1000} million=${MILLION:-1}
slow=${SLOW-4MB 8MB 16MB}
python=${PYTHON:-/usr/bin/python3} build=${BUILD:-build}
if [ $# -eq 0 ]; then
    set -- "${LARDER_SHARED:-../shared/data}"/jpeg/*.tar
fi
[ -x "$build/bench_pack" ] || { echo "bench_pack: no $build/bench_pack; make bench builds it" >&2; exit 1; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/pool" "$folder/photos"
for from in "$@"; do
    [ ! -e "$from" ] || tar xf "$from" -C "$folder/pool"
done
mapfile -t pool < <(find "$folder/pool" -name '*.jpg' | sort)
if [ ${#pool[@]} -eq 0 ]; then
    echo "bench_pack: no photographs in $*: skipped"
    exit 0
fi
for ((i = 0; i < files; i++)); do
    class=$folder/photos/$((i % 10))
    mkdir -p "$class"
    cp "${pool[i % ${#pool[@]}]}" "$class/$i.jpg"
done
bytes=$(find "$folder/photos" -name '*.jpg' -printf '%s\n' | awk '{ n += $1 } END { print n }')
echo "$files photographs (${#pool[@]} different) of $((bytes / files)) bytes, $rounds rounds, load $(cut -d' ' -f1 /proc/loadavg)"

"$build/larder" pack "$folder/photos" "$folder/packed" --jobs 1 --quiet --json >"$folder/told"
awk -v files="$files" -v bytes="$bytes" '
    function number(key) {
        match($0, "\"" key "\": *[0-9.e+]+")
        value = substr($0, RSTART, RLENGTH)
        sub(/.*: */, "", value)
        return value
    }
    /samples/ {
        printf "packing: %.0f pictures a core-second; payload %+.2f%%, with the index %+.2f%%\n",
            files / number("cpu_seconds"), 100 * (number("bytes") / bytes - 1),
            100 * ((number("bytes") + number("index_bytes")) / bytes - 1)
    }' "$folder/told"

: >"$folder/rates"
for ((r = 0; r < rounds; r++)); do
    "$build/bench_pack" --packed "$folder/packed" --plain "dir:$folder/photos" --rounds 1 \
        --samples "$samples" >>"$folder/rates"
    "$python" bench/dataloader.py "$folder/photos" --workers 0 --rounds 1 >>"$folder/rates" || true
done
awk '/samples\/core-s/ { n[$1]++; v[$1, n[$1]] = $2 }
     $1 == "packed-loader" { share = $NF }
     function median(k, i, j, t, m) {
         m = n[k]
         for (i = 1; i <= m; i++)
             for (j = i + 1; j <= m; j++)
                 if (v[k, j] < v[k, i]) { t = v[k, i]; v[k, i] = v[k, j]; v[k, j] = t }
         return v[k, int((m + 1) / 2)]
     }
     function line(k, text) {
         if (!(k in n)) return
         theirs = median(k)
         printf "%-34s %6d samples/core-s [%d..%d]", text, theirs, v[k, 1], v[k, n[k]]
         printf k == "packed-loader" ? "\n" : ": packed is %.2f times as fast\n", ours / theirs
     }
     END {
         ours = median("packed-loader")
         line("packed-loader", "packed, crop before read")
         line("plain-loader", "plain files, cropped decode")
         line("dataloader-0-workers", "PyTorch DataLoader")
         line("packed-direct", "packed without a loader")
         ours = median("packed-direct")
         line("full-decode", "full decode without a loader")
         gsub(/[()]/, "", share)
         printf "bytes read a sample: %s of the file\n", share
     }' "$folder/rates"

tar cf "$folder/plain.tar" --sort=name -C "$folder/photos" .
for rate in $slow; do
    for what in "pack:$folder/packed" "tar:$folder/plain.tar"; do
        echo "storage of $rate a second, ${what%%:*}: $("$build/bench_pack" --epoch --packed "slow:bandwidth=$rate:$what")"
    done
done

if [ "$million" = 1 ]; then # one shard under a thousand names: the index is what counts
    shard=$folder/packed/shard-000000
    mkdir "$folder/many"
    one=$("$build/larder" ls "pack:$shard.tar" --json --limit 0 | grep -o '"count": *[0-9]*' |
        head -1 | tr -dc 0-9)
    for ((i = 0; i * one < 1000000; i++)); do
        ln "$shard.tar" "$folder/many/shard-$(printf %06d "$i").tar"
        ln "$shard.larder" "$folder/many/shard-$(printf %06d "$i").larder"
    done
    "$build/bench_pack" --packed "$folder/many" --open
fi
