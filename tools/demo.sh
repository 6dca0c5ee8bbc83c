#!/bin/sh
# Trains one network on the same data through several recipes, on storage slow enough that a plain
# loader waits for it, with several seeds each, and draws the report. `make demo` builds first. Ctrl-C
# leaves a report of what is there.
#
#   DATA     folder or URI with a training and a test part  (Fashion-MNIST of Debian)
#   RECIPES  what to compare; none is a loader without cache, minio what larder does unless told
#            otherwise  (none minio rotate)
#   SEEDS    of order, augmentation and weights  (1 2 3)
#   CACHE    budget of the others  (20%)
#   EPOCHS   of each  (6)
#   SLOW     speed of the storage, as larder train --slow takes it  (bandwidth=16MiB)
#   NET LARDER OUT
set -u
cd "$(dirname "$0")/.." || exit 1

data=${DATA:-/usr/share/datasets/fashion-mnist}
recipes=${RECIPES:-none minio rotate}
seeds=${SEEDS:-1 2 3}
cache=${CACHE:-20%}
epochs=${EPOCHS:-6}
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

echo "larder demo: $data"
echo "  $epochs epochs each, cache $cache, storage ${slow:-at full speed}, seeds $seeds"
echo
wide=4
for recipe in $recipes; do
    [ ${#recipe} -le "$wide" ] || wide=${#recipe}
done
stopped=
trap 'stopped=1' INT TERM
status=0
set --
# All recipes with the first seed come first: who stops the demo can compare them.
for seed in $seeds; do
    for recipe in $recipes; do
        case $recipe in
            none) rule=lru budget=0 ;;
            *) rule=$recipe budget=$cache ;;
        esac
        # A recipe's parameters would make poor names of folders.
        folder=$out/demo/$(printf '%s' "$recipe-$seed" | tr -c 'A-Za-z0-9._-' '_')
        [ -z "$stopped" ] || { status=130 && break 2; } # what Ctrl-C cut short is no name
        rm -rf "$folder"
        mkdir -p "$folder" || [ -n "$stopped" ] || exit 1
        [ ! -t 1 ] || printf '%4s  %s …\r' "$seed" "$recipe" # until its line is there
        "$larder" train "$data" --recipe "$rule" --cache "$budget" --epochs "$epochs" \
            --seed "$seed" --net "${NET:-mlp}" ${slow:+--slow "$slow"} \
            --name "$recipe" --out "$folder" --quiet >"$folder/said.txt" 2>&1
        status=$?
        if [ -s "$folder/epochs.jsonl" ]; then # it came to the end of an epoch
            said=$("$larder" report --short "$folder")
            [ $# -gt 0 ] || printf "seed  %-${wide}s  %s\n" run "$(echo "$said" | sed -n '1s/^run *//p')"
            row=$(echo "$said" | sed -n 3p)
            printf "%4s  %-${wide}s%s\n" "$seed" "$recipe" "${row#"$recipe"}"
            set -- "$@" "$folder"
        fi
        [ -z "$stopped" ] || status=130
        [ $status -lt 128 ] || break 2
        [ $status -eq 0 ] || { cat "$folder/said.txt" >&2 && exit $status; }
    done
done

[ $# -gt 0 ] || exit $status
echo
"$larder" report --short "$@" -o "$out/demo.html" --md "$out/demo.md" \
    --title "larder: one network, one data set, different caches" || exit 1
echo "subst: another sample served instead; repeat: served again in the same epoch"
exit $status
