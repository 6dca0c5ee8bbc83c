#!/bin/sh
# The slow checks: all tests under the sanitizers, with longer property runs (LARDER_LONG), and
# every fuzz target for some seconds. Fuzzing starts from the stored inputs and keeps what it finds
# in build/fuzz; only a crash fails. The inputs follow from FUZZ_SEED, so that a change is not
# refused for what another one left behind; search with other seeds, and for longer, at night.
#
#     FUZZ_SECONDS=5 FUZZ_SEED=1 tools/check-long.sh [asan] [tsan] [msan] [fuzz] [long] [reproducible]
set -eu
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-5}
seed=${FUZZ_SEED:-1}
jobs=$(nproc 2>/dev/null || echo 2)
[ $# -gt 0 ] || set -- asan tsan msan fuzz long reproducible

build() { # preset, folder
    tools/configure.sh "$1"
    cmake --build "$2" --parallel "$jobs"
}

tests() ( # folder, arguments of ctest
    cd "$1"
    shift
    # gcc 12's TSan gives up where addresses are random over more bits than it knows.
    fixed=
    if setarch -R true 2>/dev/null; then fixed="setarch -R"; fi
    # shellcheck disable=SC2086 # two words or none
    $fixed ctest --output-on-failure --parallel 2 "$@"
)

fuzz() {
    build fuzz build/fuzz
    for target in build/fuzz/fuzz_*; do
        case $target in *.*) continue ;; esac
        [ -x "$target" ] || continue
        name=${target##*/fuzz_}
        echo "fuzz $name for $seconds s"
        mkdir -p "build/fuzz/found/$name" "tests/fuzz/corpus/$name"
        "$target" -max_total_time="$seconds" -seed="$seed" -rss_limit_mb=2048 -timeout=10 \
            -max_len=65536 \
            -print_final_stats=1 -artifact_prefix="build/fuzz/$name-" \
            "build/fuzz/found/$name" "tests/fuzz/corpus/$name" >"build/fuzz/$name.log" 2>&1 || {
            tail -n 60 "build/fuzz/$name.log" >&2
            echo "fuzz $name: failed; the input is the newest build/fuzz/$name-*" >&2
            exit 1
        }
        sed -n 's/^stat::number_of_executed_units: */  inputs: /p' "build/fuzz/$name.log"
    done
}

long() {
    build test build/test
    export LARDER_LONG=1
    # The others say the same as in `make test`.
    tests build/test --label-regex '^(long|longer)$'
}

export ASAN_OPTIONS="strict_string_checks=1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:${TSAN_OPTIONS:-}"
# OpenBLAS is not built with the sanitizers, which would see races between its own threads.
export OPENBLAS_NUM_THREADS=1
for what; do
    start=$(date +%s)
    case $what in
    asan)
        build asan build/asan
        tests build/asan --label-exclude '^(long|headers)$'
        ;;
    tsan)
        # Slow twins, replayed inputs, the simulated world and what all plug-ins promise run on one
        # thread: nothing to race with. System tests drive the program from outside and take minutes here; the
        # library's own tests have its threads.
        build tsan build/tsan
        tests build/tsan --label-exclude '^(long|headers|model|conformance|fuzz|simulate|system)$'
        ;;
    msan)
        # The core alone, with libc: other libraries are not built with it, and what they write would
        # pass for bytes that nobody has set. Left out: what drives the program from outside, and
        # those that take longest for what others show as well.
        build msan build/msan
        tests build/msan --label-regex '^(unit|model|conformance|fault|fuzz)$' --label-exclude '^long$' \
            --exclude-regex '^test_(graph_twin|ods_jobs|policy_twins|closed_forms|resume|disk_crash|daemon_jobs|stall|web_faults)$'
        ;;
    fuzz) fuzz ;;
    long) (long) ;;
    reproducible) tools/check-reproducible.sh ;;
    *)
        echo "check-long: asan, tsan, msan, fuzz, long or reproducible, not $what" >&2
        exit 2
        ;;
    esac
    echo "check-long: $what took $(($(date +%s) - start)) s"
done
