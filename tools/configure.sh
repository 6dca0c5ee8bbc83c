#!/bin/sh
# Configures one preset of CMakePresets.json and says only what is switched off or went wrong.
#
#     tools/configure.sh PRESET [CMAKE ARGUMENTS]
set -eu
cd "$(dirname "$0")/.."
if ! command -v cmake >/dev/null || ! command -v ninja >/dev/null; then
    echo "cmake and ninja are needed (Debian: cmake ninja-build); with a C compiler alone: make core" >&2
    exit 1
fi
log=build/configure-$1.log
if ! mkdir -p build || [ ! -w build ]; then
    echo "$PWD/build cannot be written to (whose is it? is the tree read-only?)" >&2
    exit 1
fi
cmake --preset "$@" >"$log" 2>&1 || {
    [ -s "$log" ] || echo "cmake failed without a word; is there room left for $PWD/build?" >&2
    cat "$log" >&2
    exit 1
}
skip=
if [ "$1" = release ]; then skip='/^-- tests: off/d;'; fi # who runs them configures "test"
sed -n "$skip"'s/^-- \(.*: off.*\)/\1/p' "$log"
