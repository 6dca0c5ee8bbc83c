#!/bin/sh
# Which lines and branches of src/ the tests of `make test` run. clang counts: a branch is one of the
# two ways out of a condition that stands in the source, each part of && and || by itself, or a case
# of a switch; there are none that only the compiler sees. Asserts are off, since one way out of them
# is a bug. Scripts that build the tree once more are left out, as they run other programs.
# Prints a table by folder; build/coverage/html/index.html shows each line.
#
#     tools/coverage.sh [ARGUMENTS OF CTEST]              -R '^test_tape$': these alone
#     KEEP=1 tools/coverage.sh [ARGUMENTS OF CTEST]       adds to what earlier runs have counted
set -eu
cd "$(dirname "$0")/.."
top=$PWD/build/coverage
tools/configure.sh coverage
cmake --build build/coverage --parallel "$(nproc 2>/dev/null || echo 2)" >build/coverage.log || {
    cat build/coverage.log >&2
    exit 1
}
[ "${KEEP:-}" ] || rm -rf "$top/raw"
rm -rf "$top/html"
bad=0
(cd build/coverage && ctest --output-on-failure --parallel 4 --label-exclude '^(long|headers)$' \
    --exclude-regex '^test_(contributing|docs|install|tools|py_wheel)$' "$@") || bad=1
llvm-profdata merge --sparse "$top"/raw/*.profraw -o "$top/tests.profdata"

# The library has all of src/ but the commands, which are in the program. Files are not chosen here, as a
# compiler's cache may have written their names from another folder; the table takes those of src/.
objects="build/coverage/larder --object build/coverage/liblarder.so"
# shellcheck disable=SC2086 # several words
report() { # command of llvm-cov, options
    what=$1
    shift
    llvm-cov "$what" $objects --instr-profile="$top/tests.profdata" "$@"
}
report show --format=html --output-dir="$top/html" --show-branches=count >/dev/null
report export --summary-only --format=text >"$top/summary.json"
python3 tools/coverage-table.py "$top/summary.json" | tee "$top/table.md"
exit $bad
