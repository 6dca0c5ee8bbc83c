#!/bin/sh
# Trains one network on the same data through several recipes, on storage slow enough that a plain
# loader waits for it, and draws the report. `make demo` builds first. Ctrl-C leaves a report of
# what is there.
#
#   DATA     folder or URI with a training and a test part  (Fashion-MNIST of Debian)
#   RECIPES  what to compare; none is a loader without cache, minio what larder does unless told
#            otherwise  (none lru minio rotate spider:scoring=wait)
#   CACHE    budget of the others  (20%)
#   EPOCHS   of each  (8)
#   SLOW     speed of the storage, as larder train --slow takes it  (bandwidth=16MiB)
#   SEED NET LARDER OUT
set -u
cd "$(dirname "$0")/.." || exit 1

data=${DATA:-/usr/share/datasets/fashion-mnist}
recipes=${RECIPES:-none lru minio rotate spider:scoring=wait}
cache=${CACHE:-20%}
epochs=${EPOCHS:-8}
slow=${SLOW-bandwidth=16MiB}
larder=${LARDER:-build/larder}
out=${OUT:-report}

if [ ! -x "$larder" ]; then
    echo "demo: $larder is not there; make builds it" >&2
    exit 1
fi
if [ -z "${DATA:-}" ] && [ ! -d "$data" ]; then
    echo "demo: no Fashion-MNIST in $data" >&2
    echo "      apt-get install dataset-fashion-mnist, or DATA=folder make demo" >&2
    exit 1
fi
mkdir -p "$out/demo" || exit 1

echo "larder demo: $data, cache $cache, ${slow:-full speed}"
stopped=
trap 'stopped=1' INT TERM
status=0
set --
for recipe in $recipes; do
    case $recipe in
        none) rule=lru budget=0 ;;
        *) rule=$recipe budget=$cache ;;
    esac
    # A recipe's parameters would make poor names of folders.
    folder=$out/demo/$(printf '%s' "$recipe" | tr -c 'A-Za-z0-9._-' '_')
    rm -rf "$folder"
    echo
    "$larder" train "$data" --recipe "$rule" --cache "$budget" --epochs "$epochs" \
        --seed "${SEED:-1}" --net "${NET:-mlp}" ${slow:+--slow "$slow"} \
        --name "$recipe" --out "$folder"
    status=$?
    [ -f "$folder/meta.json" ] && set -- "$@" "$folder"
    [ -n "$stopped" ] || [ $status -ge 128 ] && break
    [ $status -eq 0 ] || exit $status
done

[ $# -gt 0 ] || exit $status
echo
"$larder" report "$@" -o "$out/demo.html" \
    --title "larder: one network, one data set, different caches" || exit 1
exit $status
