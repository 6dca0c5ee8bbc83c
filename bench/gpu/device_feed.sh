#!/usr/bin/env bash
# Everything of bench/gpu/feed.py on a machine with a GPU, in stages that can be called one by one. From the root of the
# tree, with the pieces of pictures and peers (tar files) as they come:
#
#     bench/gpu/device_feed.sh take PIECE.tar...        # pictures, peers: unpacked; again for further pieces
#     bench/gpu/device_feed.sh build                    # larder with what is installed, and the bench programs
#     bench/gpu/device_feed.sh cpu                      # where a core's time goes: bench/gpu/cpu_path.py
#     bench/gpu/device_feed.sh data                     # COUNT (10000) pictures as folder, tar, pack, shrunk
#     bench/gpu/device_feed.sh lines [feed.py OPTIONS]  # LIMIT (300) seconds of lines
#
# or several: device_feed.sh take a.tar -- build -- cpu -- data -- lines --plan quick. Everything lies in WORK
# (build/feed); results are also copied to OUT where that is set. A stage that fails is named and ends the script.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=${WORK:-build/feed} count=${COUNT:-10000} limit=${LIMIT:-300} python=${PYTHON:-python3}
export PYTHONUNBUFFERED=1
mkdir -p "$work/pictures" "$work/peers"
began=$SECONDS

say() { echo "== $* (after $((SECONDS - began)) s)"; }

keep() { # results so far, whatever comes
    [ -z "${OUT:-}" ] || cp -f "$work"/*.jsonl "$work"/*.log "$OUT"/ 2>/dev/null || true
}
trap keep EXIT

take() {
    for piece; do
        case $piece in
        *peers*) tar xf "$piece" -C "$work/peers" ;;
        *) tar xf "$piece" -C "$work/pictures" ;;
        esac
    done
    echo "$(find "$work/pictures" -type f | wc -l) pictures; peers: $(find "$work/peers" -mindepth 1 -maxdepth 1 -printf '%f ')"
}

build() {
    # What is missing cannot be installed here; every library is optional.
    tools/configure.sh release || { tail -30 build/configure-release.log; return 1; }
    timeout 240 cmake --build build --parallel "$(nproc)" \
        --target larder larder_shared bench_stage bench_pack >"$work/build.log" 2>&1 ||
        { tail -30 "$work/build.log"; return 1; }
    build/larder --version
    # larder's own decoder of Huffman codes wants libjpeg-turbo's inside, jpegint.h.
    printf '#if __has_include(<jpegint.h>)\njpegint.h is there\n#else\nno jpegint.h: codes are decoded slower\n#endif\n' |
        cc -E -P - || true
}

cpu() { timeout 150 "$python" bench/gpu/cpu_path.py "$work/pictures" --seconds 1 --results "$work/cpu.jsonl" | tee "$work/cpu.log"; }

data() { timeout 120 "$python" bench/gpu/pictures.py "$work/pictures" "$work/data" --count "$count" | tail -1; }

lines() {
    timeout $((limit + 60)) "$python" bench/gpu/feed.py "$work/data" --results "$work/feed.jsonl" \
        --peers "$work/peers" --budget "$limit" "$@" 2>&1 | tee -a "$work/feed.log"
}

stage=() status=0
run_stage() {
    [ ${#stage[@]} -gt 0 ] || return 0
    case ${stage[0]} in
    take | build | cpu | data | lines) say "${stage[*]}" ;;
    *) echo "device_feed: no stage ${stage[0]}; there are take build cpu data lines" >&2 && exit 2 ;;
    esac
    "${stage[@]}" || { status=$? && say "${stage[0]} failed ($status)" && keep && exit "$status"; }
    keep
}
for word; do
    if [ "$word" = -- ]; then
        run_stage
        stage=()
    else
        stage+=("$word")
    fi
done
run_stage
say "all stages done"
