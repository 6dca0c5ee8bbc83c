#!/bin/sh
# Plays seeds of the made world (tests/simulate), a part of them on each processor. A seed that
# fails is said with the line that repeats it, and that is the exit code.
#
#     tools/simulate.sh 5000|FIRST-LAST [daemon|group|ranks|far|disk|below|all] [more words for tool_simulate]
set -eu
cd "$(dirname "$0")/.."
seeds=$1
shift
case $seeds in
*-*) first=${seeds%-*} last=${seeds#*-} ;;
*) first=1 last=$seeds ;;
esac
case $first,$last in
,* | *, | *[!0-9,]*) last=0 ;;
esac
if [ "$last" = 0 ] || [ "$first" -gt "$last" ]; then
    echo "simulate: SEEDS is how many, or from which to which (1-5000), not \"$seeds\"" >&2
    exit 2
fi
parts=$(nproc 2>/dev/null || echo 2)
[ $((last - first + 1)) -ge "$parts" ] || parts=1
size=$(((last - first + parts) / parts))
ids=
for i in $(seq 0 $((parts - 1))); do
    from=$((first + i * size)) to=$((first + (i + 1) * size - 1))
    [ "$to" -le "$last" ] || to=$last
    [ "$from" -gt "$to" ] || {
        build/test/tool_simulate "$@" "$from-$to" &
        ids="$ids $!"
    }
done
rc=0
for id in $ids; do wait "$id" || rc=1; done
exit "$rc"
