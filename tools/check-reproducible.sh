#!/bin/bash
# Does the same tree give the same bytes? Two copies of it, in folders of other names and lengths,
# are built one after the other and compared: the core, unoptimised, since paths, dates and the order
# of files do not depend on that; or with `all` the release, libraries and program, which takes
# minutes.
#
#     tools/check-reproducible.sh [all]
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc 2>/dev/null || echo 2)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CCACHE_DISABLE=1 # it would give the first one's answers to the second

copy() { # FOLDER
    mkdir -p "$1"
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$1"
}

build() ( # FOLDER
    cd "$1"
    if [ "${what:-core}" = all ]; then
        cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DLARDER_TESTS=OFF >/dev/null
        cmake --build build --parallel "$jobs" --target larder larder_shared larder_static >/dev/null
    else
        make -s core CORE_CFLAGS=-O0 JOBS="$jobs" >/dev/null
    fi
)

what=${1:-core}
files=(build/core/larder)
[ "$what" = core ] || files=(build/larder build/liblarder.so build/liblarder.a)
for place in "$folder/a" "$folder/another/place"; do
    copy "$place"
    build "$place"
done
for file in "${files[@]}"; do
    cmp "$folder/a/$file" "$folder/another/place/$file"
done
echo "reproducible: ${files[*]} have the same bytes from two places"
