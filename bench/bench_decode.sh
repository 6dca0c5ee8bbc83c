#!/usr/bin/env bash
# Photographs to RandomResizedCrop(224), flip, normalise: larder's stages against PyTorch's
# DataLoader on the same files, turn by turn, in samples per core-second (CPU time of all processes
# of a side). Prints both medians with their spread, and the ratio.
#
#     bench/bench_decode.sh [FOLDER-OR-TAR...]
#
# ROUNDS (3), FILES (1000: pictures are repeated under new names up to that), WORKERS ("0 1 2"),
# BUILD (build), PYTHON (/usr/bin/python3).
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-3} files=${FILES:-1000} workers=${WORKERS:-0 1 2}
python=${PYTHON:-/usr/bin/python3}
program=${BUILD:-build}/bench_stage
if [ $# -eq 0 ]; then
    set -- "${LARDER_SHARED:-../shared/data}"/jpeg/*.tar
fi
[ -x "$program" ] || { echo "bench_decode: no $program; make bench builds it" >&2; exit 1; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/pool" "$folder/photos"
for from in "$@"; do
    if [ -d "$from" ]; then
        find "$from" -name '*.jpg' -exec cp -t "$folder/pool" {} +
    elif [ -e "$from" ]; then
        tar xf "$from" -C "$folder/pool"
    fi
done
mapfile -t pool < <(find "$folder/pool" -name '*.jpg' | sort)
if [ ${#pool[@]} -eq 0 ]; then
    echo "bench_decode: no photographs in $*: skipped"
    exit 0
fi
for ((i = 0; i < files; i++)); do
    class=$folder/photos/$((i % 10))
    mkdir -p "$class"
    cp "${pool[i % ${#pool[@]}]}" "$class/$i.jpg"
done
bytes=$(du -sb "$folder/photos" | cut -f1)
echo "$files photographs (${#pool[@]} different) of $((bytes / files)) bytes, $rounds rounds"

: >"$folder/rates"
for ((r = 0; r < rounds; r++)); do
    "$program" --rounds 1 --seconds 2 --case photo-rrc-f32 --read "$folder/photos" >>"$folder/rates"
    for w in $workers; do
        "$python" bench/dataloader.py "$folder/photos" --workers "$w" --rounds 1 \
            >>"$folder/rates" || { cat "$folder/rates"; exit 0; }
    done
done

awk '{ n[$1]++; v[$1, n[$1]] = $2 }
     function median(k, i, j, t, m) {
         m = n[k]
         for (i = 1; i <= m; i++)
             for (j = i + 1; j <= m; j++)
                 if (v[k, j] < v[k, i]) { t = v[k, i]; v[k, i] = v[k, j]; v[k, j] = t }
         return v[k, int((m + 1) / 2)]
     }
     END {
         ours = median("photo-rrc-f32")
         printf "%-22s %6d samples/core-s [%d..%d]\n", "larder stages", ours, \
             v["photo-rrc-f32", 1], v["photo-rrc-f32", n["photo-rrc-f32"]]
         for (w = 0; w <= 64; w++) {
             k = "dataloader-" w "-workers"
             if (!(k in n))
                 continue
             theirs = median(k)
             printf "%-22s %6d samples/core-s [%d..%d]: larder is %.2f times as fast\n", k, \
                 theirs, v[k, 1], v[k, n[k]], ours / theirs
         }
     }' "$folder/rates"
