#!/bin/bash
# How svm-train gains from threads: wall and CPU seconds (best of five) for 1, 2, 4 and 8 of them, and
# where one thread's time goes. For a quiet machine; wants a C compiler, cmake, and xz or python3.
#
#     bench/svm_threads.sh [FOLDER with libsvm/ and mnist/, ../shared/data]
set -eu
cd "$(dirname "$0")/.."
shared=${1:-${LARDER_SHARED:-../shared/data}}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
    cmake -S . -B build/threads -DCMAKE_BUILD_TYPE=Release -DLARDER_TESTS=OFF
    cmake --build build/threads --target larder --parallel
} >"$work/log" 2>&1 || {
    tail -20 "$work/log"
    exit 1
}
larder=build/threads/larder

unpack() { # NAME
    if command -v xz >/dev/null; then
        xz -dc "$shared/libsvm/$1.xz" >"$work/$1"
    else
        python3 -c 'import lzma, shutil, sys
shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' "$shared/libsvm/$1.xz" "$work/$1"
    fi
}

mnist() { # the first 10,000 pictures
    python3 - "$shared/mnist" >"$work/mnist" <<'PY'
import lzma, sys
read = lambda name, skip: lzma.open(f"{sys.argv[1]}/train-{name}-ubyte.xz").read()[skip:]
images, labels = read("images-idx3", 16), read("labels-idx1", 8)
text = [f"{i / 255:.6g}" for i in range(256)]
for i in range(10000):
    row = images[i * 784:(i + 1) * 784]
    print(labels[i], " ".join(f"{j + 1}:{text[v]}" for j, v in enumerate(row) if v))
PY
}

best() { # THREADS OPTIONS... FILE: "wall user" of the quickest of five
    local threads=$1
    shift
    for _ in 1 2 3 4 5; do
        TIMEFORMAT='%R %U'
        { time $larder svm-train -q --threads "$threads" --stats "$work/stats" "$@" "$work/model" \
            >/dev/null 2>&1; } 2>&1
    done | sort -n | head -1
}

line() { # NAME OPTIONS... FILE
    local name=$1 one wall user
    shift
    read -r one user <<<"$(best 1 "$@")"
    printf '%-26s %8.2f s wall, %.2f user, 1 thread; of it' "$name" "$one" "$user"
    sed 's/.*"seconds": {\([^}]*\)}.*/\1/; s/"//g' "$work/stats"
    for threads in 2 4 8; do
        [ "$threads" -le "$(nproc)" ] || continue
        read -r wall user <<<"$(best $threads "$@")"
        awk -v t=$threads -v a="$one" -v b="$wall" -v u="$user" \
            'BEGIN { printf "%26s %8.2f s wall, %.2f user, %d threads: %.2f x\n", "", b, u, t, a / b }'
    done
}

echo "load $(cut -d' ' -f1 /proc/loadavg), $(nproc) cores, $($larder --version | head -1)"
for set in a9a connect-4 abalone_scale sector.t.scale; do unpack $set; done
mnist
line "adult RBF" -c 100 -g 0.5 "$work/a9a"
line "adult sigmoid" -t 3 -c 10 -g 0.01 "$work/a9a"
line "connect-4 RBF" -c 1 -g 0.3 "$work/connect-4"
line "MNIST RBF, 10,000 rows" -c 10 -g 0.125 "$work/mnist"
line "abalone SVR" -s 3 -c 10 "$work/abalone_scale"
line "sector linear, 105 classes" -t 0 "$work/sector.t.scale"
