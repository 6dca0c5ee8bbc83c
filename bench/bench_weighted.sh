#!/bin/bash
# Weighted draws against torch.multinomial, one core each, CPU time, rounds taken in turn so that
# other work on the machine hits both: medians and ratios. Without torch: larder's figures alone.
#
#     bench/bench_weighted.sh [rounds]
set -euo pipefail
cd "$(dirname "$0")/.."
program=${BUILD:-build}/bench_weighted
[ -x "$program" ] || {
    echo "bench_weighted: no $program; make bench builds it" >&2
    exit 1
}
rounds=${1:-5}
python=python3
if [ -x /usr/bin/python3 ]; then python=/usr/bin/python3; fi # the one with Debian's packages
if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "bench_weighted: no torch for $python: larder alone"
    exec "$program" "$rounds"
fi
"$python" - "$program" "$rounds" <<'EOF'
import statistics, subprocess, sys, time
import torch

torch.set_num_threads(1)
program, rounds = sys.argv[1], int(sys.argv[2])
print(f"{'n':>9} {'draws':<12} {'larder ms':>10} {'torch ms':>10} {'ratio':>6}   CPU, median of {rounds}")
for n in (50_000, 1_281_167, 10_000_000):
    weights = torch.rand(n) ** 2 + 0.01
    ours, theirs = {"replacement": []}, {"replacement": []}
    for _ in range(rounds):
        out = subprocess.run([program, "3", str(n)], capture_output=True, text=True, check=True)
        for line in out.stdout.splitlines():
            words = line.split()
            if words[0] == "time" and words[1] in ours:
                ours[words[1]].append(float(words[3]))
        for kind in theirs:
            start = time.process_time()
            torch.multinomial(weights, n, kind == "replacement")
            theirs[kind].append((time.process_time() - start) * 1e3)
    for kind in ours:
        a, b = statistics.median(ours[kind]), statistics.median(theirs[kind])
        print(f"{n:9} {kind:<12} {a:10.2f} {b:10.2f} {b / a:5.1f}x")
try:
    torch.multinomial(torch.ones(2**24 + 1), 1)
except RuntimeError as e:
    print("torch, 2^24 + 1 ids:", str(e).splitlines()[0])
EOF
"$program" 3 $((2 ** 24 + 1))
