#!/bin/sh
# Runs every benchmark: programs build/bench_* (from bench/bench_*.c) and scripts bench/bench_*.sh
# and .py. Names given run these alone: tools/bench.sh cache policy
set -eu
cd "$(dirname "$0")/.."
python=python3
if [ -x /usr/bin/python3 ]; then python=/usr/bin/python3; fi # the one with Debian's packages
if [ $# -eq 0 ]; then
    # shellcheck disable=SC2046 # names without blanks
    set -- $(for file in bench/bench_*.*; do
        name=${file##*/bench_}
        echo "${name%.*}"
    done | sort -u)
fi
[ "${1:-}" != '*' ] || {
    echo "bench: there is no bench/bench_*" >&2
    exit 1
}
for name; do
    echo "== $name"
    if [ -f "bench/bench_$name.sh" ]; then
        bash "bench/bench_$name.sh"
    elif [ -f "bench/bench_$name.py" ]; then
        "$python" "bench/bench_$name.py"
    else
        "build/bench_$name"
    fi
done
