#!/bin/sh
# Everything `make lint` checks; goes through all of it and fails at the end. clang-tidy's answer
# for a file is kept in build/lint as long as the file, what it includes and .clang-tidy stay the
# same.
set -eu
cd "$(dirname "$0")/.."
jobs=$(nproc 2>/dev/null || echo 2)
bad=0

step() { # name, command
    name=$1
    shift
    start=$(date +%s)
    if "$@"; then verdict=ok; else
        verdict=FAILED
        bad=1
    fi
    echo "lint: $name $verdict, $(($(date +%s) - start)) s"
}

# Not the tests: the analyser does not know that cmocka's asserts end a path.
sources() { tools/tracked-files.sh 'src/*.c' 'examples/*.c'; }

shell_scripts() {
    tools/tracked-files.sh 'tools/*.sh' 'tests/*.sh' 'bench/*.sh' 'examples/*.sh' '.ci/run' |
        xargs shellcheck --severity=warning
}

# Words that are meant: names of the code. Man pages and helps are made from src/.
spelling() {
    tools/tracked-files.sh '*.md' 'src/*' 'include/*' 'python/*' 'tools/*' 'examples/*' 'debian/*' |
        grep -v '^src/see/page/' | xargs codespell --ignore-words-list=crate,fro,inflight,reencode,upto
}

run_cppcheck() {
    mkdir -p build/lint/cppcheck
    # shellcheck disable=SC2046 # names without blanks
    cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr \
        --error-exitcode=1 --template=gcc --cppcheck-build-dir=build/lint/cppcheck -j "$jobs" \
        -D_GNU_SOURCE -U__cplusplus -I include -I src -I tests/support \
        --suppressions-list=tools/cppcheck.txt $(tools/tracked-files.sh 'src/*.c')
}

tidy_file() { # file
    included=$(cc -MM -D_GNU_SOURCE -Iinclude -Isrc "$1" | sed 's/^[^:]*://; s/\\$//')
    # shellcheck disable=SC2086
    key=$(cat .clang-tidy CMakeLists.txt $included | cksum | tr ' ' -)
    stamp=build/lint/tidy/$(echo "$1" | tr / _).$key
    [ -f "$stamp" ] && return 0
    if out=$(clang-tidy --quiet -p build "$1" 2>/dev/null); then
        rm -f "build/lint/tidy/$(echo "$1" | tr / _)".*
        : >"$stamp"
    else
        echo "$out"
        return 1
    fi
}

tidy() {
    mkdir -p build/lint/tidy
    compiled=$(sources | while read -r file; do
        if grep -q "/$file\"" build/compile_commands.json; then echo "$file"; fi
    done)
    echo "$compiled" | xargs -P "$jobs" -I{} "$0" --tidy-file {}
}

if [ "${1:-}" = --tidy-file ]; then
    tidy_file "$2"
    exit
fi
# clang-tidy goes by build/compile_commands.json: an old one would leave new files out.
tools/configure.sh release
step format tools/format.sh --check
step layers tools/check-layers.sh
step style tools/check-style.sh
step shellcheck shell_scripts
step spelling spelling
step cppcheck run_cppcheck
step clang-tidy tidy
exit $bad
