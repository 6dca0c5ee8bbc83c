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
mkdir -p build
cmake --preset "$@" >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
}
sed -n 's/^-- \(.*: off.*\)/\1/p' "$log"
