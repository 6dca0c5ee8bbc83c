#!/bin/sh
# Runs the fuzz targets that lie beside it (tools/fuzz-bundle.sh makes that folder) until each had its
# CPU-minutes (minutes.list) or the time is over; the one that had the least of its share goes next.
#
#     fuzz-run.sh JOBS SECONDS OUT [BEFORE…]
#
# OUT gets `table` (what each target had here), a log of each, `crashes/`, `notes` and `found.tar.gz` (inputs that
# were new). BEFORE is an OUT of earlier: what its targets had counts, what it found is where this begins. SEED=1
# in the environment begins elsewhere, SLICE=120 is for how many seconds a target runs at a time. FIRST="wire access"
# are targets that have all their time before others begin.
set -eu
if [ $# -lt 3 ]; then
    echo "fuzz-run.sh JOBS SECONDS OUT [BEFORE…]" >&2
    exit 2
fi
jobs=$1
end=$(($(date +%s) + $2))
seconds=$2
mkdir -p "$3/work/found" "$3/crashes"
out=$(cd "$3" && pwd)
work=$out/work
shift 3
for before; do
    if [ -e "$before/table" ]; then cat "$before/table"; fi
    if [ -e "$before/found.tar.gz" ]; then tar -C "$work" -xzf "$before/found.tar.gz"; fi
done >"$work/before"
cd "$(dirname "$0")"
seed=${SEED:-1}
slice=${SLICE:-120}

export OPENBLAS_NUM_THREADS=1 UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=strict_string_checks=1
start="lib/ld-linux-x86-64.so.2 --argv0" # of the libc that the programs were built with
# clang 14's ASan wants addresses that are less random than some kernels make them.
if setarch -R true 2>/dev/null; then start="setarch -R $start"; fi
# shellcheck disable=SC2086 # several words
if ! $start ./fuzz_csv ./fuzz_csv -runs=1 >"$work/try.log" 2>&1; then
    ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 # which needs ptrace
    if ! $start ./fuzz_csv ./fuzz_csv -runs=1 >"$work/try.log" 2>&1; then
        cat "$work/try.log" >&2
        exit 1
    fi
fi
echo "$(uname -sr), $jobs jobs, $seconds s, seed $seed, $ASAN_OPTIONS, $start" >>"$out/notes"

# goals: name, CPU seconds it is to have, those it had. table: a line a target, of this run alone.
for program in fuzz_*; do
    [ "$program" = fuzz_many ] || echo "${program#fuzz_}"
done | awk -v list=minutes.list -v before="$work/before" 'BEGIN {
        while ((getline <list) > 0) minutes[$1] = $2
        while ((getline <before) > 0) had[$1] += $2 }
    { print $1, 60 * ($1 in minutes ? minutes[$1] : 3), had[$1] + 0 }' >"$work/goals"
{
    echo "target cpu_s execs cov ft new_units crashes slices"
    awk '{ print $1, 0, 0, 0, 0, 0, 0, 0 }' "$work/goals"
} >"$out/table"

# Workers are processes: the table and who runs are changed under a lock.
lock() { while ! mkdir "$work/lock" 2>/dev/null; do sleep 0.05; done; }
unlock() { rmdir "$work/lock"; }

# Whose turn it is (of those of FIRST, then of all), for how long it may still run, and how often it ran; "-" if all that are left run already, nothing
# when all are done. Three crashes end a target's: somebody has to look first.
next() {
    awk -v work="$work" -v first=" ${FIRST:-} " 'FNR == NR { goal[$1] = $2; had[$1] = $3; next }
        $1 == "target" || (cpu = had[$1] + $2) + 1 > goal[$1] || $7 > 2 { next }
        (getline was < (work "/runs_" $1)) >= 0 { best = best ? best : "-"; next }
        { share = cpu / goal[$1] + !index(first, " " $1 " ") }
        best == "" || best == "-" || share < least { best = $1; least = share; left = goal[$1] - cpu; turn = $8 }
        END { print best, int(left) + 1, turn }' "$work/goals" "$out/table"
}

# CPU time is what the target's process took, as the shell counts its children's.
slice() { # name, seconds, turn
    found=$work/found/$1
    log=$work/$1.log
    mkdir -p "$found"
    (
        rc=0
        # shellcheck disable=SC2086 # several words
        timeout -s INT $(($2 + 30)) nice -n 19 $start "./fuzz_$1" "./fuzz_$1" -max_total_time="$2" \
            -seed=$((seed * 1000 + $3 + 1)) -rss_limit_mb=2048 -timeout=25 -max_len=65536 -print_final_stats=1 \
            -artifact_prefix="$out/crashes/$1-" "$found" "corpus/$1" >"$log" 2>&1 || rc=$?
        echo "exit $rc" >>"$log"
        times >"$log.times" # in a pipe it would be another shell's
        sed -n 's/^/children /; 2p' "$log.times" >>"$log"
    )
    # Progress is of no use later; what a crash said is.
    grep -v '^#[0-9]*[[:space:]]*\(NEW\|REDUCE\|RELOAD\|pulse\)' "$log" | tail -c 20000 >>"$out/$1.log"
    lock
    awk 'FNR == NR && /^stat::number_of_executed_units/ { runs = $2 }
        FNR == NR && /^stat::new_units_added/ { fresh = $2 }
        FNR == NR && /^exit / { bad = $2 != 0 && $2 != 124 } # 124: timeout ended one that hardly ran
        FNR == NR && /^children / { for (i = 2; i < 4; i++) { split($i, t, "m"); cpu += 60 * t[1] + t[2] } }
        FNR == NR { for (i = 1; i < NF; i++) { if ($i == "cov:") cov = $(i + 1); if ($i == "ft:") ft = $(i + 1) } next }
        $1 == name { $2 += cpu; $3 += runs; $6 += fresh; $7 += bad; $8++
            if (cov > $4) $4 = cov
            if (ft > $5) $5 = ft }
        { print }' "$log" name="$1" "$out/table" >"$work/table"
    mv "$work/table" "$out/table"
    rm -f "$work/runs_$1"
    unlock
}

worker() {
    while now=$(date +%s) && [ $((end - now)) -ge 3 ]; do
        lock
        whose=$(next)
        name=${whose%% *}
        case $name in '' | -) ;; *) echo 1 >"$work/runs_$name" ;; esac
        unlock
        case $name in
        '') return ;;
        -) sleep 1 ;;
        *)
            turn=${whose##* }
            time=${whose#* }
            time=${time% *}
            [ "$time" -le "$slice" ] || time=$slice
            [ "$time" -le $((end - now)) ] || time=$((end - now))
            slice "$name" "$time" "$turn"
            ;;
        esac
    done
}

i=0
while [ $i -lt "$jobs" ]; do
    worker &
    i=$((i + 1))
done
wait
# The smallest of what is new, 1 MiB of each target, so that it travels.
(
    cd "$work"
    for folder in found/*; do
        find "$folder" -type f -printf '%s %p\n' | sort -n | awk '(sum += $1) <= 1048576 { print $2 }'
    done | tar -czf "$out/found.tar.gz" -T -
)
awk 'NR == FNR { goal[$1] = $2 - $3; next }
    $1 != "target" { cpu += $2; n++; full += $2 + 1 > goal[$1]; runs += $3; bad += $7 }
    END { printf "%d of %d targets had their time, %.1f CPU-minutes, %.0f inputs, %d crashes\n", full, n, cpu / 60, runs, bad }' \
    "$work/goals" "$out/table" | tee -a "$out/notes"
rm -rf "$work"
rmdir "$out/crashes" 2>/dev/null || true
