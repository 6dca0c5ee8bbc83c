#!/bin/sh
# Every paper's script in turn: prints its table and writes its part of docs/results, then the summary.
#
#     tools/papers.sh [--full]
set -eu
cd "$(dirname "$0")/.."
python=${LARDER_PYTHON:-/usr/bin/python3}
command -v "$python" >/dev/null || python=python3
begun=$(date +%s)
for script in shade hcst seneca impact spider; do
    [ -f "bench/papers/$script.py" ] || continue
    start=$(date +%s)
    "$python" "bench/papers/$script.py" --page "$@"
    echo "$script: $(($(date +%s) - start)) s"
    echo
done
"$python" bench/papers/summary.py --page
echo "all: $(($(date +%s) - begun)) s"
