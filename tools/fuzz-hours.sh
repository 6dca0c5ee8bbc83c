#!/bin/sh
# Every fuzz target for its share of some hours, from another seed than last time; what is found to be
# new is kept in build/fuzz/found and is where the next time begins. Prints inputs, edges and what is
# kept of each.
#
#     tools/fuzz-hours.sh HOURS [NAME…]
set -eu
cd "$(dirname "$0")/.."
hours=$1
shift
tools/configure.sh fuzz >/dev/null
if [ $# -eq 0 ]; then
    set -- tests/fuzz/fuzz_*.c
fi
# shellcheck disable=SC2046 # names without blanks
set -- $(for name; do
    name=${name##*/fuzz_}
    echo "${name%.c}"
done)
# shellcheck disable=SC2046 # as above
cmake --build build/fuzz --parallel "$(nproc 2>/dev/null || echo 2)" \
    --target $(for name; do echo "fuzz_$name"; done) >build/fuzz/build.log
seconds=$(awk "BEGIN { s = int($hours * 3600 / $#); print s < 1 ? 1 : s }")
seed=$(date +%s)
bad=0
echo "$# targets, $seconds s each, seed $seed"
for name; do
    mkdir -p "build/fuzz/found/$name" "tests/fuzz/corpus/$name"
    log=build/fuzz/$name.log
    "build/fuzz/fuzz_$name" -max_total_time="$seconds" -seed="$seed" -rss_limit_mb=2048 -timeout=25 \
        -max_len=65536 -print_final_stats=1 -artifact_prefix="build/fuzz/$name-" \
        "build/fuzz/found/$name" "tests/fuzz/corpus/$name" >"$log" 2>&1 || {
        tail -n 40 "$log" >&2
        echo "fuzz $name: failed; the input is the newest build/fuzz/$name-*" >&2
        bad=1
    }
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -n 1)
    echo "$name: ${inputs:-0} inputs, ${edges:-0} edges"
done
exit $bad
